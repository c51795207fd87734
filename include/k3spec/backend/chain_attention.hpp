#pragma once
/// \file
/// What every backend is handed of the attention of drafted chains (ops/chain_attention.hpp).
/// defines: CachedRows, ChainAttention

#include <type_traits>

#include <k3spec/backend/ttt_problem.hpp>

namespace K3SPEC_NAMESPACE {

/// A text's part of a cache.
struct CachedRows {
  index_t begin, count;
};

/// One query of each of several chains.
template <class Heads, class T>
struct ChainAttention {
  Matrix<const T> q;                                ///< [chains, heads·(nope+rope)]
  Vector<const placed_as_t<CachedRows, T>> cached;  ///< [chains], at least one row each
  AttentionKeys<const T> cache;                     ///< of all texts
  AttentionSteps<const T> steps;                    ///< [chains] rows each, row i of chain i: its drafted positions
  value_t<accumulate_t<T>> scale;                   ///< of scores
};
static_assert(std::is_trivially_copyable_v<ChainAttention<AttentionHeads<1, 1, 1, 1>, bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
