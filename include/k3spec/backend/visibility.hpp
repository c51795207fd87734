#pragma once
/// \file
/// Which key a query sees, as a function: no mask is ever stored.
/// A visibility has `operator()(sequence, query, key)` and, so that whole tiles are skipped, `begin(sequence, query)`,
/// the first key that may be visible, and `end(sequence, query)`, one past the last. Neither falls as the query grows.
/// It is plain, and what it points to lies where its device's tensors do. It may have `row(sequence, query)`, a
/// function of the key alone that says the same, made once for all keys of a query, with a `mark` that says it of many
/// keys at once.
/// defines: CausalVisibility

#include <cstdint>

#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Keys from the start of the query's document up to its own position, and only those that are not padding. Positions
/// count from the sequence's start.
struct CausalVisibility {
  /// [sequences · length], 0 for padding; null: no padding.
  const std::uint8_t* attention_mask = nullptr;
  index_t length = 0;
  /// [sequences · length] the position at which each one's document starts; null: a sequence is one document.
  const index_t* document_starts = nullptr;

  /// The keys [begin, end) of a query, but for those that are padding.
  struct Row {
    index_t begin, end;
    const std::uint8_t* attention_mask;  ///< of the sequence, or null

    K3SPEC_HOST_DEVICE bool operator()(index_t key) const {
      // Without a branch where there is no padding: loops over keys are turned into packets.
      const bool within = (begin <= key) & (key < end);
      return attention_mask == nullptr ? within : within && attention_mask[key] != 0;
    }
    /// seen[j] = 1 where key first + j is visible, else 0, for n keys of the sequence: in packets, mask or not.
    void mark(index_t first, index_t n, std::uint8_t* seen) const {
      for (index_t j = 0; j < n; ++j) seen[j] = (begin <= first + j) & (first + j < end);
      if (attention_mask == nullptr) return;
      for (index_t j = 0; j < n; ++j) seen[j] &= static_cast<std::uint8_t>(attention_mask[first + j] != 0);
    }
  };

  K3SPEC_HOST_DEVICE bool operator()(index_t sequence, index_t query, index_t key) const {
    return row(sequence, query)(key);
  }
  K3SPEC_HOST_DEVICE Row row(index_t sequence, index_t query) const {
    return {begin(sequence, query), end(sequence, query),
            attention_mask == nullptr ? nullptr : attention_mask + sequence * length};
  }
  K3SPEC_HOST_DEVICE index_t begin(index_t sequence, index_t query) const {
    return document_starts == nullptr ? 0 : document_starts[sequence * length + query];
  }
  K3SPEC_HOST_DEVICE index_t end(index_t, index_t query) const { return query + 1; }
};

}  // namespace K3SPEC_NAMESPACE
