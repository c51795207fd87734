#pragma once
/// \file
/// Several documents in one row of a batch, one behind the other.
/// defines: Packing, Documents, check_documents, document_bounds, DocumentBounds

#include <algorithm>
#include <limits>
#include <string>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// none: a row is one document. apart: the frozen target runs each document as a sequence of its own, and the draft
/// sees the row with all of them. through_target: the target runs the row as one sequence; no target here can do that.
enum class Packing { none, apart, through_target };
template <>
inline constexpr std::array<std::string_view, 3> names_of<Packing>{"none", "apart", "through_target"};

/// Of R = sequences · length positions. Empty views: every row is one document.
struct Documents {
  Vector<const index_t> start;      // [R] position in the row where the position's document begins
  Vector<const index_t> remaining;  // [R] tokens of the document after this position

  bool packed() const { return remaining.extent(0) > 0; }
};

/// Refuses documents that do not fill their rows.
/// \param seq_lens  [sequences, documents], tokens of each; 0: none
/// \throws Error unless each row's documents fill `length` positions
inline void check_documents(const Matrix<const index_t>& seq_lens, index_t length) {
  for (index_t b = 0; b < seq_lens.extent(0); ++b) {
    const auto row = [&] { return "documents of row " + std::to_string(b); };
    index_t tokens = 0;
    for (index_t d = 0; d < seq_lens.extent(1); ++d) {
      const index_t n = seq_lens(b, d);
      if (n < 0) throw Error(row() + ": length of document " + std::to_string(d), std::to_string(n), "0 or more");
      tokens = std::min(n, std::numeric_limits<index_t>::max() - tokens) + tokens;
    }
    if (tokens != length) throw Error(row(), std::to_string(tokens) + " tokens", std::to_string(length));
  }
}

namespace detail {

/// Of seq_lens that check_documents lets through.
inline void fill_document_bounds(const Matrix<const index_t>& seq_lens, index_t length, Vector<index_t> start,
                                 Vector<index_t> remaining) {
  for (index_t b = 0; b < seq_lens.extent(0); ++b) {
    index_t at = 0;
    for (index_t d = 0; d < seq_lens.extent(1); ++d) {
      const index_t begin = at, end = begin + seq_lens(b, d);
      for (; at < end; ++at) start(b * length + at) = begin, remaining(b * length + at) = end - 1 - at;
    }
  }
}

}  // namespace detail

/// From seq_lens to a Documents' views.
/// \throws Error as check_documents does, and on views that have not `length` rows for each row of seq_lens
inline void document_bounds(const Matrix<const index_t>& seq_lens, index_t length, Vector<index_t> start,
                            Vector<index_t> remaining) {
  require_rows("documents: start", start, seq_lens.extent(0) * length);
  require_rows("documents: remaining", remaining, seq_lens.extent(0) * length);
  check_documents(seq_lens, length);
  detail::fill_document_bounds(seq_lens, length, start, remaining);
}

/// Owns the bounds of one batch's documents at a time.
class DocumentBounds {
 public:
  /// Memory for the bounds of every batch.
  /// \param rows  sequences · length; 0: no batch has documents
  explicit DocumentBounds(index_t rows) : start_(rows), remaining_(rows) {}

  /// Those of `seq_lens`, valid until the next call; without any, every row is one document.
  /// \throws Error as document_bounds does
  Documents of(const Matrix<const index_t>& seq_lens, index_t length) {
    if (seq_lens.extent(0) == 0) return {};
    const Vector<index_t> start(start_.data(), start_.size()), remaining(remaining_.data(), remaining_.size());
    document_bounds(seq_lens, length, start, remaining);
    return {start, remaining};
  }

 private:
  Buffer<index_t> start_, remaining_;
};

}  // namespace K3SPEC_NAMESPACE
