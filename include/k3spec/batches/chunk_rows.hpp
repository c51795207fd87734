#pragma once
/// \file
/// How many rows of logits exist at a time.
/// defines: chunk_rows

#include <algorithm>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// Rows of logits that exist at a time: about a million values.
constexpr index_t chunk_rows(index_t vocabulary) {
  return std::clamp<index_t>((index_t{1} << 20) / vocabulary, 32, 4096);
}

}  // namespace K3SPEC_NAMESPACE
