#pragma once
/// \file
/// What a block draft is trained on: blocks that open at anchors, what stands in their slots, which token each slot is
/// to predict, and how much that counts.
///
/// anchor_plus_k (DFlash): slots below the prefix length l (1 unless given) show their tokens, l = 1 the anchor alone;
/// slots k >= l are supervised by the token at anchor + k, with weight exp(-(k - l)/γ).
/// anchor_plus_k_plus_1 (DSpark): slot 0 shows the anchor; slot k is supervised by the token at anchor + k + 1, with
/// weight exp(-k/γ), up to the first slot that has no supervision.
/// defines: BlockBatch, check_block_batch, BlockRule, BlockTargets, draw_prefix_lengths

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <k3spec/backend/block_visibility.hpp>
#include <k3spec/batches/documents.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/rng.hpp>

namespace K3SPEC_NAMESPACE {

/// R = sequences · length positions, A blocks a row.
template <class T, index_t TargetWidth>
struct BlockBatch {
  index_t length;
  Vector<const index_t> input_ids;
  Vector<const std::uint8_t> loss_mask;      // [R] 0 or 1
  Rows<const T, TargetWidth> target_hidden;  // [R] the chosen target layers side by side
  Vector<const index_t> anchors;             // [sequences · A] positions; see batches/anchors.hpp
  Vector<const std::uint8_t> keep;           // [sequences · A] 0: a block of masks that counts for nothing
  Documents documents = {};
  Vector<const index_t> prefix_lengths = {};  // [sequences · A], anchor_plus_k only; empty: 1
};

namespace detail {
/// Refuses what slots are made of, of another size.
/// \throws Error naming what does not have the span's size
template <class Batch>
void check_block_extents(const BlockSpan& span, const Batch& batch) {
  const auto want = [](const char* what, index_t found, index_t wanted, const char* unit) {
    if (found == wanted) return;
    throw Error(std::string("batch: ") + what, std::to_string(found), std::to_string(wanted) + unit);
  };
  const index_t rows = span.context_rows(), blocks = span.sequences * span.blocks;
  want("length", batch.length, span.context, " positions");
  want("input_ids", batch.input_ids.extent(0), rows, " rows");
  want("loss_mask", batch.loss_mask.extent(0), rows, " rows");
  want("anchors", batch.anchors.extent(0), blocks, " blocks");
  want("keep", batch.keep.extent(0), blocks, " blocks");
  want("document starts", batch.documents.start.extent(0), batch.documents.packed() ? rows : 0, " rows");
  if (batch.documents.packed()) want("doc_remaining", batch.documents.remaining.extent(0), rows, " rows");
  if (batch.prefix_lengths.extent(0) != 0) want("prefix_lengths", batch.prefix_lengths.extent(0), blocks, " blocks");
}
}  // namespace detail

/// Refuses a batch that does not fit its span.
/// \throws Error naming what does not have the span's size, or the token that is not below `vocabulary`
template <class Batch>
void check_block_batch(const BlockSpan& span, index_t vocabulary, const Batch& batch) {
  detail::check_block_extents(span, batch);
  require_rows("batch: target_hidden", batch.target_hidden, span.context_rows());
  for (index_t r = 0; r < batch.input_ids.extent(0); ++r) {
    const index_t id = batch.input_ids(r);
    if (id >= 0 && id < vocabulary) continue;
    throw Error("batch: token at row " + std::to_string(r), std::to_string(id),
                "0 to " + std::to_string(vocabulary - 1));
  }
}

/// How a kind of draft fills and weighs its slots.
struct BlockRule {
  Slot slot;
  index_t mask_token_id;
  double gamma;  ///< slots weigh exp(-k / gamma), k counted from the first supervised one; infinity: all alike

  /// Refuses a number out of range.
  /// \throws Error on a gamma that is no weight's
  void check() const {
    require(gamma > 0, "gamma", fmt::format("{}", gamma), "a number > 0 (infinity: slots weigh alike)");
  }
};

/// Of every slot, in (sequence, block, slot) order.
struct BlockTargets {
  Vector<index_t> noise_ids, labels;
  Vector<index_t> previous_ids;  // the token before the label
  Vector<index_t> teacher_rows;  // row of [R] whose state predicts the label: that of the token before it
  Vector<std::uint8_t> supervised;
  Vector<double> weights;

  template <Allocator A>
  static constexpr BlockTargets allocate(A& a, index_t rows) {
    BlockTargets t{};
    take_rows(a, rows, t.noise_ids), take_rows(a, rows, t.labels), take_rows(a, rows, t.previous_ids);
    take_rows(a, rows, t.teacher_rows), take_rows(a, rows, t.supervised), take_rows(a, rows, t.weights);
    return t;
  }

  /// Fills the rows of a batch.
  /// \throws Error on a batch of another size, or where these were allocated for another; for an anchor or a prefix
  ///         length out of range, or prefixes where blocks show their anchor alone
  template <class Batch>
  void fill(const BlockRule& rule, const BlockSpan& span, const Batch& batch) const {
    rule.check();
    detail::check_block_extents(span, batch);
    require_rows("block targets", noise_ids, span.noise_rows());
    const index_t prefixes = batch.prefix_lengths.extent(0);
    if (rule.slot == Slot::anchor_plus_k_plus_1 && prefixes > 0) {
      throw Error("batch: prefix_lengths", std::to_string(prefixes), "none: these blocks show their anchor alone");
    }
    for (index_t i = 0; i < span.sequences * span.blocks; ++i) fill_block(rule, span, batch, i);
  }

  /// Σ of all slots' weights, in their order.
  double total_weight() const {
    double sum = 0;
    for (index_t r = 0; r < weights.extent(0); ++r) sum += weights(r);
    return sum;
  }

 private:
  template <class Batch>
  void fill_block(const BlockRule& rule, const BlockSpan& span, const Batch& batch, index_t block) const {
    const bool next = rule.slot == Slot::anchor_plus_k_plus_1, kept = batch.keep(block) != 0;
    const index_t row = block / span.blocks * span.context, anchor = batch.anchors(block);
    const index_t prefix = batch.prefix_lengths.extent(0) == 0 ? 1 : batch.prefix_lengths(block);
    check(span, block, anchor, prefix);
    const index_t first = next ? 0 : prefix, ahead = next ? 1 : 0;
    bool unbroken = true;
    for (index_t k = 0; k < span.block_size; ++k) {
      const index_t at = block * span.block_size + k, label = anchor + k + ahead;
      // Where nothing is supervised any token of the row will do.
      const index_t safe = next && !kept ? 0 : std::min(label, span.context - 1);
      const bool counts = kept && k >= first && label < span.context && batch.loss_mask(row + safe) != 0 &&
                          (!batch.documents.packed() || k + ahead <= batch.documents.remaining(row + anchor));
      unbroken = unbroken && counts;
      const bool shown = kept && k < (next ? 1 : prefix) && anchor + k < span.context;
      noise_ids(at) = shown ? batch.input_ids(row + anchor + k) : rule.mask_token_id;
      labels(at) = batch.input_ids(row + safe);
      previous_ids(at) = k == 0 ? batch.input_ids(row + anchor) : (next ? labels(at - 1) : rule.mask_token_id);
      teacher_rows(at) = row + std::max<index_t>(safe - 1, 0);
      supervised(at) = (next ? unbroken : counts) ? 1 : 0;
      weights(at) = supervised(at) == 0 ? 0 : decay(rule, k - first);
    }
  }

  static double decay(const BlockRule& rule, index_t depth) {
    return std::exp(-static_cast<double>(depth) / rule.gamma);
  }

  static void check(const BlockSpan& span, index_t block, index_t anchor, index_t prefix) {
    if (anchor < 0 || anchor >= span.context) {
      throw Error("batch: anchor of block " + std::to_string(block), std::to_string(anchor),
                  "0 to " + std::to_string(span.context - 1));
    }
    if (prefix < 1 || prefix >= span.block_size) {
      throw Error("batch: prefix length of block " + std::to_string(block), std::to_string(prefix),
                  "1 to " + std::to_string(span.block_size - 1));
    }
  }
};

/// lengths[i] = l in [min(2, b-1), b-1] with probability proportional to base^l, b = block_size, as (seed, step,
/// first_block + i) says.
/// \throws Error for a base that is not positive, or block_size < 2
inline void draw_prefix_lengths(index_t block_size, double base, std::uint64_t seed, index_t step,
                                Vector<index_t> lengths, index_t first_block = 0) {
  require(block_size >= 2, "block_size", std::to_string(block_size), "at least 2");
  require(base > 0 && std::isfinite(base), "prefix base", std::to_string(base), "a positive number");
  const index_t least = std::min<index_t>(2, block_size - 1);
  double all = 0, weight = 1;
  for (index_t l = least; l < block_size; ++l, weight *= base) all += weight;
  const Philox random(seed, streams::prefixes + static_cast<std::uint64_t>(step));
  for (index_t i = 0; i < lengths.extent(0); ++i) {
    double left = all * random.uniform(static_cast<std::uint64_t>(first_block + i));
    index_t l = least;
    for (weight = 1; l + 1 < block_size && left >= weight; ++l, weight *= base) left -= weight;
    lengths(i) = l;
  }
}

}  // namespace K3SPEC_NAMESPACE
