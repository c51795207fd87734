#pragma once
/// \file
/// Attention of a block draft (DFlash, DSpark) over [context ‖ noise]. Queries are the noise rows; each sees an
/// interval of its sequence's context and rows of its own block's noise, as `visible` says
/// (backend/block_visibility.hpp); one softmax over both. A query that sees nothing gives 0.
/// ```text
/// q   [noise rows, heads·(nope+rope)]             heads of [nope ‖ rope]
/// kv  [context or noise rows, heads·(nope+v)]     heads of [k_nope ‖ v]
/// k_rope [context or noise rows, rope]            shared by all heads
/// o   [noise rows, heads·v],  lse [noise rows, heads]  log of the softmax denominator (LogSumExp)
/// forward    s = scale · q·k, lse = log Σ exp(s), o = Σ exp(s - lse) v
/// backward   p = exp(s - lse), delta = Σ dO ⊙ O, dV += p dO, dS = p (dO·v - delta) scale, dQ += dS k, dK += dS q
/// ```
/// The time goes with the visible pairs, and a block's bits depend neither on other blocks nor on context that it does
/// not reach, not even on a NaN in it.
///
/// Saved: q, kv, k_rope, o, lse. A backend brings block_forward_kernel, block_backward_kernel and require_anchors,
/// which looks at anchors where it can, with its tag.
/// defines: block_attention_forward, block_attention_backward, block_attention_scratch

#include <k3spec/backend/cpu/block_attention.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
template <class Heads, class T>
void require_keys(const char* argument, const AttentionKeys<T>& keys, index_t rows) {
  require_shape(argument, keys.kv, rows, Heads::count * Heads::kv);
  require_shape(argument, keys.k_rope, rows, Heads::rope);
}

template <Device D, class Heads, class T, class Visible, class O>
void require_blocks(const D& device, const BlockProblem<Heads, T, Visible>& problem, const AttentionResult<O>& result) {
  require_anchors(device, problem.visible, problem.span);
  const index_t rows = problem.span.noise_rows();
  require_shape("block_attention: q", problem.q, rows, Heads::count * Heads::qk);
  require_keys<Heads>("block_attention: context", problem.context, problem.span.context_rows());
  require_keys<Heads>("block_attention: noise", problem.noise, rows);
  require_shape("block_attention: o", result.o, rows, Heads::count * Heads::v);
  require_shape("block_attention: lse", result.lse, rows, Heads::count);
}
}  // namespace detail

/// Attention of every slot over its context and its block.
/// \throws Error for an anchor outside the context, and on shapes that do not fit the span
template <Device D, class Heads, class T, class Visible>
void block_attention_forward(const D& device, const BlockProblem<Heads, T, Visible>& problem,
                             const AttentionResult<T>& result) {
  detail::require_blocks(device, problem, result);
  block_forward_kernel(device, problem, result);
}

/// Gradients of queries, context and noise, each as it is asked for.
/// \throws Error as forward does
template <Device D, class Heads, class T, class Visible>
void block_attention_backward(const D& device, const BlockProblem<Heads, T, Visible>& problem,
                              const std::type_identity_t<AttentionResult<const T>>& result,
                              const Matrix<const accumulate_t<T>>& d_o, const BlockGradients<accumulate_t<T>>& d,
                              arena_t<D>& scratch) {
  detail::require_blocks(device, problem, result);
  const index_t rows = problem.span.noise_rows(), context_rows = problem.span.context_rows();
  require_shape("block_attention: d_o", d_o, rows, Heads::count * Heads::v);
  if (d.into_q != Into::nothing) require_shape("block_attention: d_q", d.d_q, rows, Heads::count * Heads::qk);
  if (d.into_context != Into::nothing) {
    detail::require_keys<Heads>("block_attention: d_context", d.d_context, context_rows);
  }
  if (d.into_noise != Into::nothing) detail::require_keys<Heads>("block_attention: d_noise", d.d_noise, rows);
  Scope scope(scratch);
  const auto s = BlockScratch<Heads, accumulate_t<T>>::allocate(scratch, context_rows, rows);
  block_backward_kernel(device, problem, result, d_o, d, s);
}

/// Bytes of scratch that backward takes.
template <class Heads, class T>
constexpr std::size_t block_attention_scratch(index_t context_rows, index_t noise_rows) {
  return plan_bytes([&](ArenaPlan& a) { BlockScratch<Heads, accumulate_t<T>>::allocate(a, context_rows, noise_rows); });
}

}  // namespace K3SPEC_NAMESPACE
