#pragma once
/// \file
/// Which keys a block of drafted positions sees, as intervals: no mask is ever stored.
/// A block opens at its anchor, a position of the context; its rows stand at anchor + offset.
/// defines: BlockSpan, BlockVisibility

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <k3spec/backend/interval.hpp>

namespace K3SPEC_NAMESPACE {

/// `sequences` with `context` positions and `blocks` blocks of `block_size` rows each. Rows of the context are in
/// (sequence, position) order, those of the noise in (sequence, block, offset) order.
struct BlockSpan {
  index_t sequences, context, blocks, block_size;

  K3SPEC_HOST_DEVICE constexpr index_t context_rows() const { return sequences * context; }
  K3SPEC_HOST_DEVICE constexpr index_t noise_rows() const { return sequences * blocks * block_size; }
};

/// A row sees the context before its block's anchor, in the anchor's document, nearer than `window`; and its own
/// block's noise, with `causal` only up to its own offset. A block that is not kept sees its noise alone.
struct BlockVisibility {
  const index_t* anchors = nullptr;          ///< [sequences·blocks], 0 to context
  const std::uint8_t* keep = nullptr;        ///< [sequences·blocks]; null: every block
  const index_t* document_starts = nullptr;  ///< [sequences·context] first position of each one's document; null: 0
  std::optional<index_t> window = {};        ///< positions p with anchor + offset - p < window
  bool causal = false;

  /// Context positions that a row sees.
  K3SPEC_HOST_DEVICE Interval context(const BlockSpan& span, index_t sequence, index_t block, index_t offset) const {
    const index_t at = sequence * span.blocks + block;
    if (keep != nullptr && keep[at] == 0) return {0, 0};
    const index_t anchor = anchors[at];
    const index_t start = document_starts == nullptr ? 0 : document_starts[sequence * span.context + anchor];
    return {window.has_value() ? std::max(start, anchor + offset - *window + 1) : start, anchor};
  }
  /// Those that any row of a block sees.
  K3SPEC_HOST_DEVICE Interval reach(const BlockSpan& span, index_t sequence, index_t block) const {
    return context(span, sequence, block, 0);
  }

  /// A row sees its own block's noise at offsets [0, noise).
  K3SPEC_HOST_DEVICE index_t noise(const BlockSpan& span, index_t offset) const {
    return causal ? offset + 1 : span.block_size;
  }
};
static_assert(std::is_trivially_copyable_v<BlockVisibility>);

}  // namespace K3SPEC_NAMESPACE
