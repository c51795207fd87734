#pragma once
/// \file
/// Which key a query sees, as a function: no mask is ever stored.
/// A visibility has `operator()(sequence, query, key)` and, so that whole tiles are skipped, `end(sequence, query)`:
/// one past the last key that may be visible.
/// defines: CausalVisibility

#include <cstdint>

#include <k3spec/core/view.hpp>

namespace k3spec {

/// Keys up to the query's own position, and only those that are not padding. Positions count from the sequence's start.
struct CausalVisibility {
  /// [sequences · length], 0 for padding; null: no padding.
  const std::uint8_t* attention_mask = nullptr;
  index_t length = 0;

  bool operator()(index_t sequence, index_t query, index_t key) const {
    return key <= query && (attention_mask == nullptr || attention_mask[sequence * length + key] != 0);
  }
  index_t end(index_t, index_t query) const { return query + 1; }
};

}  // namespace k3spec
