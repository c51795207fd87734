#pragma once
/// \file
/// What the host tells the device of a batch of blocks before a step.
/// defines: BlockLists

#include <algorithm>
#include <cstdint>

#include <k3spec/batches/block_batch.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/objectives/block_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// Lists of a batch's positions, blocks and slots. \tparam S  of losses
template <class S, Device D>
struct BlockLists {
  Mirrored<D, index_t> document_starts, anchors;  // [R], [blocks] and, next, [blocks]
  Mirrored<D, std::uint8_t> keep;
  Mirrored<D, index_t> noise_ids, previous_ids;      // of every slot, as in BlockTargets
  Mirrored<D, index_t> slots, labels, teacher_rows;  // of the supervised slots, ascending
  Mirrored<D, S> d_losses;                           // of every slot: its weight in the step's loss
  bool packed = false;

  template <class M>
  static constexpr BlockLists allocate(M& m, const BlockSpan& span) {
    const index_t rows = span.noise_rows(), blocks = span.sequences * span.blocks;
    BlockLists l{};
    l.document_starts = m.template take<index_t>(span.context_rows()), l.anchors = m.template take<index_t>(blocks);
    l.keep = m.template take<std::uint8_t>(blocks);
    l.noise_ids = m.template take<index_t>(rows), l.previous_ids = m.template take<index_t>(rows);
    l.slots = m.template take<index_t>(rows), l.labels = m.template take<index_t>(rows);
    l.teacher_rows = m.template take<index_t>(rows), l.d_losses = m.template take<S>(rows);
    return l;
  }

  /// Takes over a batch that check_block_batch lets through. \param total  weight of the step's slots
  /// \returns how many slots are supervised
  template <class Batch>
  index_t fill(const Batch& batch, const BlockTargets& targets, double total) {
    const auto copy = [](const auto& from, const auto& to) {
      std::copy_n(from.data(), from.extent(0), to.host.data());
    };
    packed = batch.documents.packed();
    if (packed) copy(batch.documents.start, document_starts);
    copy(batch.anchors, anchors), copy(batch.keep, keep);
    copy(targets.noise_ids, noise_ids), copy(targets.previous_ids, previous_ids);
    const index_t n = list_supervised(targets.supervised, slots.host);
    for (index_t i = 0; i < n; ++i) {
      labels.host(i) = targets.labels(slots.host(i)), teacher_rows.host(i) = targets.teacher_rows(slots.host(i));
    }
    for (index_t r = 0; r < d_losses.host.extent(0); ++r) {
      d_losses.host(r) = static_cast<S>(block_loss_mean(targets.weights(r), total));
    }
    return n;
  }

  /// What the blocks see, for a draft with this config.
  template <class Config>
  BlockVisibility visibility() const {
    return {bare(anchors.device.data()), bare(keep.device.data()),
            packed ? bare(document_starts.device.data()) : nullptr, Config::sliding_window, Config::block_causal};
  }
};

}  // namespace K3SPEC_NAMESPACE
