#pragma once
/// \file
/// Which keys a block of drafted positions sees, as intervals: no mask is ever stored.
/// A block opens at its anchor, a position of the context; its rows stand at anchor + offset.
/// defines: BlockSpan, Interval, BlockVisibility

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// `sequences` with `context` positions and `blocks` blocks of `block_size` rows each. Rows of the context are in
/// (sequence, position) order, those of the noise in (sequence, block, offset) order.
struct BlockSpan {
  index_t sequences, context, blocks, block_size;

  constexpr index_t context_rows() const { return sequences * context; }
  constexpr index_t noise_rows() const { return sequences * blocks * block_size; }
};

/// Positions [begin, end); none if end <= begin.
struct Interval {
  index_t begin, end;

  constexpr index_t size() const { return std::max<index_t>(0, end - begin); }
  constexpr bool contains(const Interval& other) const { return begin <= other.begin && other.end <= end; }
  constexpr Interval operator&(const Interval& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
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
  Interval context(const BlockSpan& span, index_t sequence, index_t block, index_t offset) const {
    const index_t at = sequence * span.blocks + block;
    if (keep != nullptr && keep[at] == 0) return {0, 0};
    const index_t anchor = anchors[at];
    const index_t start = document_starts == nullptr ? 0 : document_starts[sequence * span.context + anchor];
    return {window.has_value() ? std::max(start, anchor + offset - *window + 1) : start, anchor};
  }
  /// Those that any row of a block sees.
  Interval reach(const BlockSpan& span, index_t sequence, index_t block) const {
    return context(span, sequence, block, 0);
  }

  /// A row sees its own block's noise at offsets [0, noise).
  index_t noise(const BlockSpan& span, index_t offset) const { return causal ? offset + 1 : span.block_size; }

  /// Refuses anchors that are no positions of the context.
  /// \throws Error for an anchor outside the context; with documents it must be one of its positions, and its document
  ///         must not begin outside the context or behind it
  void check(const BlockSpan& span) const {
    const index_t most = document_starts == nullptr ? span.context : span.context - 1;
    for (index_t i = 0; i < span.sequences * span.blocks; ++i) {
      if (keep != nullptr && keep[i] == 0) continue;
      const std::string block = " of block " + std::to_string(i);
      require_within("anchor", block, anchors[i], most);
      if (document_starts == nullptr) continue;
      require_within("document start", block, document_starts[i / span.blocks * span.context + anchors[i]], anchors[i]);
    }
  }

 private:
  static void require_within(const char* what, const std::string& block, index_t found, index_t most) {
    if (found < 0 || found > most) throw Error(what + block, std::to_string(found), "0 to " + std::to_string(most));
  }
};

}  // namespace K3SPEC_NAMESPACE
