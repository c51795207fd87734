#pragma once
/// \file
/// The small arrays that go to the device with each call of a block draft's session: ids, and which rows go where.
/// defines: DraftedBlock, DraftingLists

#include <span>

#include <k3spec/backend/move_rows.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/decode/draft_session.hpp>

namespace K3SPEC_NAMESPACE {

/// A block among those that are drafted together.
struct DraftedBlock {
  index_t sequence, anchor;
  index_t length;  ///< positions of the context
  index_t count;   ///< tokens that are to be drafted
  index_t row;     ///< of its first slot among all slots
};

/// Per-row numbers of a session, which the host makes for the device.
template <Device D>
class DraftingLists {
 public:
  /// Room for what a session of this size drafts.
  /// \param first_slot  slots of a block that predict nothing
  DraftingLists(const D& device, const SessionSize& size, index_t first_slot)
      : of_append_(device, bytes_of_append(size)),
        of_draft_(device, bytes_of_draft(size, first_slot)),
        of_step_(device, bytes_of_step(size)),
        size_(size),
        first_slot_(first_slot),
        appended_(of_append_.template take<RowMove>(size.rows)),
        slots_(take_slots(of_draft_, size, first_slot)),
        previous_(of_step_.template take<index_t>(size.sequences)) {}

  /// Bytes that they take.
  static std::size_t bytes(const SessionSize& size, index_t first_slot) {
    return bytes_of_append(size) + bytes_of_draft(size, first_slot) + bytes_of_step(size);
  }

  /// A position's row of the caches: the context's, and those of a block behind them.
  index_t place(index_t sequence, index_t position) const {
    return sequence * (size_.capacity + size_.chain + first_slot_) + position;
  }

  /// Sets and uploads where the rows of an append go in the caches.
  /// \param counts, lengths  as in require_append
  const Mirrored<D, RowMove>& append(const D& device, std::span<const index_t> counts,
                                     std::span<const index_t> lengths) {
    index_t row = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      const auto i = static_cast<std::size_t>(b);
      for (index_t t = 0; t < counts[i]; ++t, ++row) appended_.host(row) = {row, place(b, lengths[i] + t)};
    }
    of_append_.upload(device);
    return appended_;
  }

  /// Of the slots of all blocks.
  struct Slots {
    Mirrored<D, index_t> ids;                ///< anchors and masks
    Mirrored<D, RowMove> noise, predicting;  ///< to their places in the caches; of those that predict, to [block, most]
  };
  /// Sets those of a block. \param i  which one it is \param most  tokens of the longest block
  void add_block(const DraftedBlock& block, index_t i, index_t most, index_t mask) {
    for (index_t t = 0; t < block.count + first_slot_; ++t) {
      slots_.ids.host(block.row + t) = t == 0 ? block.anchor : mask;
      slots_.noise.host(block.row + t) = {block.row + t, place(block.sequence, block.length + t)};
    }
    const index_t before = block.row - i * first_slot_;  // slots that predict, of the blocks before
    for (index_t t = 0; t < block.count; ++t) {
      slots_.predicting.host(before + t) = {block.row + first_slot_ + t, i * most + t};
    }
  }
  /// Uploads what was set.
  const Slots& upload_slots(const D& device) {
    of_draft_.upload(device);
    return slots_;
  }
  const Slots& slots() const { return slots_; }

  /// [blocks] the tokens before those that are drafted next.
  const Mirrored<D, index_t>& previous() const { return previous_; }
  void upload_previous(const D& device) { of_step_.upload(device); }

 private:
  static std::size_t bytes_of_append(const SessionSize& size) { return detail::piece<RowMove>(size.rows); }
  static std::size_t bytes_of_draft(const SessionSize& size, index_t first_slot) {
    MirrorPlan<D> plan;
    take_slots(plan, size, first_slot);
    return plan.bytes();
  }
  static std::size_t bytes_of_step(const SessionSize& size) { return detail::piece<index_t>(size.sequences); }
  template <class M>
  static Slots take_slots(M& m, const SessionSize& size, index_t first_slot) {
    const index_t predicting = size.sequences * size.chain, rows = predicting + size.sequences * first_slot;
    return {m.template take<index_t>(rows), m.template take<RowMove>(rows), m.template take<RowMove>(predicting)};
  }

  Mirror<D> of_append_, of_draft_, of_step_;
  SessionSize size_;
  index_t first_slot_;
  Mirrored<D, RowMove> appended_;
  Slots slots_;
  Mirrored<D, index_t> previous_;
};

}  // namespace K3SPEC_NAMESPACE
