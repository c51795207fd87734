#pragma once
/// \file
/// The small arrays that go to the device with each call of an EAGLE-3 draft's session: ids, positions, and which rows
/// go where.
/// defines: Eagle3Lists

#include <algorithm>
#include <span>

#include <k3spec/backend/chain_attention.hpp>
#include <k3spec/backend/move_rows.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/decode/draft_session.hpp>

namespace K3SPEC_NAMESPACE {

/// Per-row numbers of a session, which the host makes for the device.
template <Device D>
class Eagle3Lists {
 public:
  /// Of an append: ids and positions of its rows, their places in the caches, and the last rows of sequences, which
  /// become their tips.
  struct Appended {
    Mirrored<D, index_t> ids, positions;  ///< [rows]
    Mirrored<D, RowMove> places, tips;    ///< [rows], [sequences]
  };
  /// Of a step of the chains, [sequences].
  struct Chains {
    Mirrored<D, index_t> ids, positions;
    Mirrored<D, CachedRows> cached;
    Mirrored<D, RowMove> tips;  ///< in the order of the chains
  };

  Eagle3Lists(const D& device, const SessionSize& size)
      : of_append_(device, plan(size).append),
        of_step_(device, plan(size).step),
        of_drafted_(device, plan(size).drafted),
        size_(size),
        appended_(take_appended(of_append_, size)),
        chains_(take_chains(of_step_, size)),
        drafted_(of_drafted_.template take<RowMove>(size.sequences)) {}

  /// Bytes that they take.
  static std::size_t bytes(const SessionSize& size) {
    const Plan p = plan(size);
    return p.append + p.step + p.drafted;
  }

  const Appended& appended() const { return appended_; }
  const Chains& chains() const { return chains_; }
  /// [sequences] from rows of logits to where the weights of their tokens are kept.
  const Mirrored<D, RowMove>& drafted() const { return drafted_; }
  void upload_drafted(const D& device) { of_drafted_.upload(device); }

  /// A position's row of the caches.
  index_t place(index_t sequence, index_t position) const { return sequence * size_.capacity + position; }

  /// Sets what an append needs, and uploads it.
  /// \param ids, counts, lengths  as in require_append
  /// \returns how many sequences get a new tip
  index_t append(const D& device, std::span<const index_t> ids, std::span<const index_t> counts,
                 std::span<const index_t> lengths) {
    std::copy(ids.begin(), ids.end(), appended_.ids.host.data());
    index_t row = 0, tips = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      const index_t length = lengths[at(b)], count = counts[at(b)];
      for (index_t t = length; t < length + count; ++t, ++row) {
        appended_.positions.host(row) = t;
        appended_.places.host(row) = {row, place(b, t)};
      }
      if (count > 0) appended_.tips.host(tips++) = {row - 1, b};
    }
    of_append_.upload(device);
    return tips;
  }

  /// Sets what step k of chains needs, and uploads it.
  /// \param order   the sequences that draft
  /// \param tokens  [sequences · chain] drafted in the steps before
  void step(const D& device, std::span<const index_t> order, std::span<const index_t> lengths,
            std::span<const index_t> tokens, index_t k) {
    index_t i = 0;
    for (const index_t b : order) {
      const index_t length = lengths[at(b)];
      chains_.ids.host(i) = k > 0 ? tokens[at(b * size_.chain + k - 1)] : 0;
      chains_.positions.host(i) = length - 1;
      chains_.cached.host(i) = {place(b, 0), length};
      chains_.tips.host(i) = {b, i};
      ++i;
    }
    of_step_.upload(device);
  }

 private:
  struct Plan {
    std::size_t append, step, drafted;
  };
  static Plan plan(const SessionSize& size) {
    MirrorPlan<D> append, step, drafted;
    take_appended(append, size), take_chains(step, size);
    drafted.template take<RowMove>(size.sequences);
    return {append.bytes(), step.bytes(), drafted.bytes()};
  }
  template <class M>
  static Appended take_appended(M& m, const SessionSize& size) {
    return {m.template take<index_t>(size.rows), m.template take<index_t>(size.rows),
            m.template take<RowMove>(size.rows), m.template take<RowMove>(size.sequences)};
  }
  template <class M>
  static Chains take_chains(M& m, const SessionSize& size) {
    const index_t n = size.sequences;
    return {m.template take<index_t>(n), m.template take<index_t>(n), m.template take<CachedRows>(n),
            m.template take<RowMove>(n)};
  }
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

  Mirror<D> of_append_, of_step_, of_drafted_;
  SessionSize size_;
  Appended appended_;
  Chains chains_;
  Mirrored<D, RowMove> drafted_;
};

}  // namespace K3SPEC_NAMESPACE
