#pragma once
/// \file
/// How many rows of logits exist at a time.
/// defines: chunk_rows

#include <algorithm>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// Rows of logits that exist at a time: about four million values, but 128 rows at least. The head's weights are
/// packed, and its gradients read and written, once for each chunk: what that takes is to be little beside the
/// products.
constexpr index_t chunk_rows(index_t vocabulary) {
  return std::clamp<index_t>((index_t{1} << 22) / vocabulary, 128, 4096);
}

}  // namespace K3SPEC_NAMESPACE
