#pragma once
/// \file
/// What every backend is handed of the attention of a block draft (ops/block_attention.hpp).
/// defines: BlockProblem, BlockGradients, BlockScratch

#include <type_traits>

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/block_visibility.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/arena.hpp>

namespace K3SPEC_NAMESPACE {

/// Queries of the noise, keys of context and noise, and which of them see each other.
template <class Heads, class T, class Visible>
struct BlockProblem {
  static_assert(std::is_trivially_copyable_v<Visible>);
  BlockSpan span;
  Matrix<const T> q;  ///< [noise rows, heads·(nope+rope)]
  AttentionKeys<const T> context, noise;
  Visible visible;
  scalar_t<T> scale;  ///< of scores
};
static_assert(std::is_trivially_copyable_v<BlockProblem<AttentionHeads<1, 1, 1, 1>, bfloat16, BlockVisibility>>);

/// Where the gradients of a BlockProblem's inputs go.
template <class S>
struct BlockGradients {
  Matrix<S> d_q;
  AttentionKeys<S> d_context, d_noise;
  Into into_q = Into::overwrite, into_context = Into::overwrite, into_noise = Into::overwrite;
};
static_assert(std::is_trivially_copyable_v<BlockGradients<float>>);

/// Scratch of backward: the gradients of the shared rope slices, per head; and what a device whose queries and keys are
/// not walked together keeps of a query.
template <class Heads, class S>
struct BlockScratch {
  Rows<S, Heads::count * Heads::rope> context, noise;
  Rows<S, Heads::count> delta;  ///< d_o · o

  template <Allocator A>
  static constexpr BlockScratch allocate(A& a, index_t context_rows, index_t noise_rows) {
    BlockScratch s;
    take_rows(a, context_rows, s.context), take_rows(a, noise_rows, s.noise);
    if constexpr (is_placed<S>) take_rows(a, noise_rows, s.delta);
    return s;
  }
};

}  // namespace K3SPEC_NAMESPACE
