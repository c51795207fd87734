#pragma once
/// \file
/// Where the blocks of a training batch open. A step draws, per row, up to `blocks` of the valid positions: those with
/// the smallest random keys, which depend on (seed, step, position) alone.
/// defines: NoValidAnchors, anchor_positions, find_valid_anchors, sample_anchors, AnchorSampler

#include <algorithm>
#include <cstdint>
#include <string>

#include <k3spec/backend/block_visibility.hpp>
#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/nothing_supervised.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/rng.hpp>

namespace K3SPEC_NAMESPACE {

/// A batch without any: there is nothing to learn from it, and a training loop goes on with the next.
class NoValidAnchors : public NothingSupervised {
 public:
  explicit NoValidAnchors(index_t positions)
      : NothingSupervised("anchors", "none in " + std::to_string(positions) + " positions",
                          "a supervised position with room for its block, or with a supervised one after it") {}
};

/// Positions of a row that may be anchors: [0, anchor_positions).
constexpr index_t anchor_positions(Slot slot, const BlockSpan& span) {
  if (span.context == 0) return 0;
  if (slot == Slot::anchor_plus_k) return std::max<index_t>(span.context - span.block_size, 0) + 1;
  return span.context - 1;
}

/// valid [sequences, anchor_positions], 0 or 1. anchor_plus_k: the position is supervised and a whole block lies ahead
/// in the row (of a row shorter than a block, position 0 is left) and in the document. anchor_plus_k_plus_1: it and the
/// next are, in one document. \param loss_mask  [sequences · context], 0 or 1
/// \throws Error on other numbers of rows than the span has
inline void find_valid_anchors(Slot slot, const BlockSpan& span, Vector<const std::uint8_t> loss_mask,
                               const Documents& documents, const Matrix<std::uint8_t>& valid) {
  require_rows("anchors: loss_mask", loss_mask, span.context_rows());
  if (documents.packed()) require_rows("anchors: doc_remaining", documents.remaining, span.context_rows());
  require_shape("anchors: valid", valid, span.sequences, anchor_positions(slot, span));
  const bool whole_block = slot == Slot::anchor_plus_k;
  const index_t ahead = whole_block ? span.block_size - 1 : 1;
  for (index_t b = 0; b < span.sequences; ++b) {
    for (index_t p = 0; p < valid.extent(1); ++p) {
      const index_t row = b * span.context + p;
      bool ok = loss_mask(row) != 0 && (whole_block || loss_mask(row + 1) != 0);
      if (documents.packed()) ok = ok && documents.remaining(row) >= ahead;
      valid(b, p) = ok ? 1 : 0;
    }
  }
}

/// Of each row's valid positions the anchors.extent(1) with the smallest keys (of equal ones the first), ascending;
/// anchor 0 and keep 0 where there are not so many. valid, keys [sequences, positions]; anchors, keep
/// [sequences, blocks]; scratch [positions].
/// \returns how many were chosen
/// \throws Error on shapes that do not fit valid's
inline index_t sample_anchors(const Matrix<const std::uint8_t>& valid, const Matrix<const double>& keys,
                              const Matrix<index_t>& anchors, const Matrix<std::uint8_t>& keep,
                              Vector<index_t> scratch) {
  const index_t sequences = valid.extent(0);
  require_shape("anchors: keys", keys, sequences, valid.extent(1));
  require_rows("anchors: anchors", anchors, sequences);
  require_shape("anchors: keep", keep, sequences, anchors.extent(1));
  require_count("anchors: scratch", scratch.extent(0), valid.extent(1));
  index_t chosen = 0;
  for (index_t b = 0; b < valid.extent(0); ++b) {
    index_t* const first = scratch.data();
    index_t* last = first;
    for (index_t p = 0; p < valid.extent(1); ++p) {
      if (valid(b, p) != 0) *last++ = p;
    }
    const index_t count = std::min<index_t>(last - first, anchors.extent(1));
    // Ordered by (key, position) and then by position.
    std::partial_sort(first, first + count, last, [&](index_t x, index_t y) {
      return keys(b, x) < keys(b, y) || (keys(b, x) == keys(b, y) && x < y);
    });
    std::sort(first, first + count);
    for (index_t i = 0; i < anchors.extent(1); ++i) {
      anchors(b, i) = i < count ? first[i] : 0;
      keep(b, i) = i < count ? 1 : 0;
    }
    chosen += count;
  }
  return chosen;
}

/// Draws a step's anchors with nothing allocated.
class AnchorSampler {
 public:
  /// Plans for batches of a span.
  /// \throws Error on a span that has less than nothing of something, or blocks without slots
  AnchorSampler(Slot slot, const BlockSpan& span)
      : slot_(slot),
        span_(checked(span)),
        valid_(span.sequences * positions()),
        keys_(span.sequences * positions()),
        scratch_(positions()),
        anchors_(span.sequences * span.blocks),
        keep_(span.sequences * span.blocks) {}

  /// Draws anchors for a batch.
  /// \param loss_mask       [sequences · context], 0 or 1
  /// \param first_sequence  where these rows stand in the whole step: what is drawn depends neither on ranks nor on the
  ///                        batches that a step is cut into
  /// \throws NoValidAnchors, and Error on a loss mask or documents of other numbers of rows
  void sample(Vector<const std::uint8_t> loss_mask, const Documents& documents, std::uint64_t seed, index_t step,
              index_t first_sequence = 0) {
    if (draw(loss_mask, documents, seed, step, first_sequence) == 0) throw NoValidAnchors(span_.context_rows());
  }

  /// The same, where a batch without anchors is no error. \returns how many there are
  index_t draw(Vector<const std::uint8_t> loss_mask, const Documents& documents, std::uint64_t seed, index_t step,
               index_t first_sequence = 0) {
    const Matrix<std::uint8_t> valid(valid_.data(), span_.sequences, positions());
    const Matrix<double> keys(keys_.data(), span_.sequences, positions());
    find_valid_anchors(slot_, span_, loss_mask, documents, valid);
    const Philox random(seed, streams::anchors + static_cast<std::uint64_t>(step));
    for (index_t b = 0; b < span_.sequences; ++b) {
      for (index_t p = 0; p < positions(); ++p) {
        keys(b, p) = random.uniform(static_cast<std::uint64_t>((first_sequence + b) * span_.context + p));
      }
    }
    chosen_ = sample_anchors(valid, keys, Matrix<index_t>(anchors_.data(), span_.sequences, span_.blocks),
                             Matrix<std::uint8_t>(keep_.data(), span_.sequences, span_.blocks),
                             Vector<index_t>(scratch_.data(), positions()));
    return chosen_;
  }

  /// Of the last sample: [sequences · blocks].
  Vector<const index_t> anchors() const { return Vector<const index_t>(anchors_.data(), anchors_.size()); }
  Vector<const std::uint8_t> keep() const { return Vector<const std::uint8_t>(keep_.data(), keep_.size()); }
  /// Blocks that are kept.
  index_t chosen() const { return chosen_; }

 private:
  static const BlockSpan& checked(const BlockSpan& span) {
    const auto least = [](const char* what, index_t found, index_t wanted) {
      if (found < wanted) throw Error(what, std::to_string(found), "at least " + std::to_string(wanted));
    };
    least("anchors: sequences", span.sequences, 0), least("anchors: context", span.context, 0);
    least("anchors: blocks", span.blocks, 0), least("anchors: block_size", span.block_size, 1);
    return span;
  }
  index_t positions() const { return anchor_positions(slot_, span_); }

  Slot slot_;
  BlockSpan span_;
  Buffer<std::uint8_t> valid_;
  Buffer<double> keys_;
  Buffer<index_t> scratch_, anchors_;
  Buffer<std::uint8_t> keep_;
  index_t chosen_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
