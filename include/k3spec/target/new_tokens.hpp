#pragma once
/// \file
/// How many new tokens of each sequence a forward of the target runs.
/// defines: NewTokens

#include <span>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// What a call of the target's forward runs: new tokens of every sequence, of each as many, or of each another number,
/// none included. Rows are [sequence][new token].
class NewTokens {
 public:
  /// As many new tokens of every sequence.
  /// \param ids  [sequences, new tokens of each]
  NewTokens(const Matrix<const index_t>& ids)
      : ids_(ids.data()), stride_(ids.row_stride()), sequences_(ids.extent(0)), each_(ids.extent(1)) {}
  /// Another number of new tokens of each sequence.
  /// \param ids     [rows]
  /// \param counts  [sequences], 0 or more, rows in all
  /// \throws Error when they are not as many as ids in all
  NewTokens(std::span<const index_t> ids, std::span<const index_t> counts)
      : ids_(ids.data()), sequences_(static_cast<index_t>(counts.size())), counts_(counts) {
    auto left = static_cast<index_t>(ids.size());
    for (const index_t n : counts) {
      require_part("target: counts of new tokens", 0, n, left);
      left -= n;
    }
    require_count("target: new tokens that no sequence counts", left, 0);
  }

  index_t sequences() const { return sequences_; }
  index_t count(index_t sequence) const {
    return counts_.empty() ? each_ : counts_[static_cast<std::size_t>(sequence)];
  }
  index_t rows() const { return rows_before(sequences_); }
  /// Rows of all sequences before this one.
  index_t rows_before(index_t sequence) const {
    if (counts_.empty()) return sequence * each_;
    index_t sum = 0;
    for (const index_t n : counts_.first(static_cast<std::size_t>(sequence))) sum += n;
    return sum;
  }
  /// The first sequence of part p of several that have about as many rows each.
  index_t part_begin(index_t p, index_t parts) const {
    if (p == parts) return sequences_;
    const index_t wanted = rows() * p / parts;
    index_t b = 0, before = 0;
    while (before < wanted) before += count(b++);
    return b;
  }
  /// How many sequences from `first` on have `wanted` rows together, or as many as there are.
  index_t sequences_with(index_t wanted, index_t first) const {
    index_t b = first, found = 0;
    while (b < sequences_ && found < wanted) found += count(b++);
    return b - first;
  }
  /// The ids of one sequence.
  std::span<const index_t> of(index_t sequence) const {
    const index_t begin = counts_.empty() ? sequence * stride_ : rows_before(sequence);
    return {ids_ + begin, static_cast<std::size_t>(count(sequence))};
  }

 private:
  const index_t* ids_;
  index_t stride_ = 0, sequences_, each_ = 0;
  std::span<const index_t> counts_;
};

}  // namespace K3SPEC_NAMESPACE
