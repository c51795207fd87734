#pragma once
/// \file
/// Attention of drafts in training on a card: over the steps of test-time training, and of blocks.
/// defines: require_anchors, ttt_forward_kernel, ttt_backward_kernel, block_forward_kernel, block_backward_kernel

#include <k3spec/backend/cuda/attention_backward.hpp>
#include <k3spec/backend/cuda/items.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Keys as a kernel takes them.
template <class T>
AttentionKeys<value_t<T>> bare_keys(const AttentionKeys<T>& keys) {
  using k3spec::bare;
  return {bare(keys.kv), bare(keys.k_rope)};
}
/// A problem's sources, as a kernel takes them.
template <class Heads, class T, class Visible>
auto bare_problem(const TttProblem<Heads, T, Visible>& from) {
  using k3spec::bare;
  TttProblem<Heads, value_t<T>, Visible> to{from.span, bare(from.q), {}, from.visible, from.scale};
  for (index_t s = 0; s < from.steps.count; ++s) to.steps.add(bare_keys(from.steps[s]));
  return TttSources<Heads, value_t<T>, Visible>{to};
}
/// A problem's sources, as a kernel takes them.
template <class Heads, class T, class Visible>
auto bare_problem(const BlockProblem<Heads, T, Visible>& from) {
  using k3spec::bare;
  return BlockSources<Heads, value_t<T>, Visible>{
      {from.span, bare(from.q), bare_keys(from.context), bare_keys(from.noise), from.visible, from.scale}};
}

/// One launch.
template <class Problem, class T>
void forward(const Cuda& cuda, const Problem& problem, const AttentionResult<T>& result) {
  using U = value_t<T>;
  using S = accumulate_t<U>;
  const auto p = bare_problem(problem);
  using Sources = std::remove_const_t<decltype(p)>;
  if (result.o.size() == 0) return;
  cuda.require_device_memory(problem.q, "attention: q");
  cuda.require_device_memory(result.o, "attention: o");
  const auto shape = AttentionTile<S>::shape(p.sequences(), Sources::Heads::count, p.queries());
  launch(cuda, shape, attention_forward<Sources, U, S>, p, bare(result.o), bare(result.lse));
}

/// Up to three launches: gradients that nobody wants have none.
template <class Sources, class T, class S>
void backward(const Cuda& cuda, const Sources& p, const AttentionGradients<T, S>& g) {
  using Tile = AttentionTile<S>;
  constexpr index_t heads = Sources::Heads::count;
  index_t keys = 0;
  for (int source = 0; source < p.count(); ++source) {
    if (g.sources[source].into != Into::nothing) keys = std::max(keys, p.rows(source));
  }
  if (g.into_q == Into::nothing && keys == 0) return;
  if (p.sequences() == 0) return;
  if (p.queries() > 0) {
    launch(cuda, Tile::shape(p.sequences(), heads, p.queries()), attention_queries_backward<Sources, T, S>, p, g);
  }
  if (keys == 0) return;
  launch(cuda, Tile::shape(p.sequences(), heads, keys), attention_keys_backward<Sources, T, S>, p, g);
  const unsigned blocks = blocks_for(cuda, p.sequences() * keys * Sources::Heads::rope, 256);
  launch(cuda, {dim3(blocks), dim3(256)}, attention_shared_keys_backward<Sources, T, S>, p, g);
}

/// A block whose anchor or whose document's start is no position: a fault.
template <class Visible>
__global__ void __launch_bounds__(256) check_anchors(Visible visible, BlockSpan span, unsigned long long* faults) {
  for_items(span.sequences * span.blocks, [&](index_t block) {
    if (visible.keep != nullptr && visible.keep[block] == 0) return;
    const bool documents = visible.document_starts != nullptr;
    const index_t anchor = visible.anchors[block];
    if (!is_id(anchor, span.context + (documents ? 0 : 1), block, faults) || !documents) return;
    is_id(visible.document_starts[block / span.blocks * span.context + anchor], anchor + 1, block, faults);
  });
}

}  // namespace cuda

/// Has Cuda::synchronize refuse anchors that are no positions of the context, and documents that begin behind theirs.
inline void require_anchors(const Cuda& cuda, const BlockVisibility& visible, const BlockSpan& span) {
  const index_t blocks = span.sequences * span.blocks;
  if (blocks == 0) return;
  cuda::launch(cuda, cuda::item_shape(cuda, blocks), cuda::check_anchors<BlockVisibility>, visible, span,
               cuda.faults());
}

/// Forward, without checks.
template <class Heads, class T, class Visible>
void ttt_forward_kernel(const Cuda& cuda, const TttProblem<Heads, T, Visible>& problem,
                        const AttentionResult<T>& result) {
  cuda::forward(cuda, problem, result);
}

/// Backward, without checks: the same bits every time.
template <class Heads, class T, class Visible, class S>
void ttt_backward_kernel(const Cuda& cuda, const TttProblem<Heads, T, Visible>& problem,
                         const AttentionResult<const T>& result, const Matrix<const S>& d_o, const TttGradients<S>& d,
                         const TttScratch<Heads, S>& scratch) {
  const auto p = cuda::bare_problem(problem);
  const index_t rows = problem.span.rows();
  cuda::AttentionGradients<value_t<T>, value_t<S>> g{
      bare(result.o), bare(result.lse), bare(d_o), bare(d.d_q), d.into_q, bare(scratch.delta.matrix()), {}};
  for (index_t s = 0; s < problem.steps.count && d.into_steps != Into::nothing; ++s) {
    auto& to = g.sources[s];
    to.keys = cuda::bare_keys(d.d_steps[s]), to.into = d.into_steps;
    if (s == 0) {
      to.per_head = bare(scratch.d_k_rope.matrix());
    } else {
      to.d_scores = bare(scratch.d_diagonal.matrix()).rows((s - 1) * rows, rows);
    }
  }
  cuda::backward(cuda, p, g);
}

/// Forward, without checks; of a block with an anchor that is none (require_anchors) anything but an illegal access.
template <class Heads, class T, class Visible>
void block_forward_kernel(const Cuda& cuda, const BlockProblem<Heads, T, Visible>& problem,
                          const AttentionResult<T>& result) {
  cuda::forward(cuda, problem, result);
}

/// Backward, without checks: the same bits every time.
template <class Heads, class T, class Visible, class S>
void block_backward_kernel(const Cuda& cuda, const BlockProblem<Heads, T, Visible>& problem,
                           const AttentionResult<const T>& result, const Matrix<const S>& d_o,
                           const BlockGradients<S>& d, const BlockScratch<Heads, S>& scratch) {
  cuda::AttentionGradients<value_t<T>, value_t<S>> g{
      bare(result.o), bare(result.lse), bare(d_o), bare(d.d_q), d.into_q, bare(scratch.delta.matrix()), {}};
  g.sources[0] = {cuda::bare_keys(d.d_context), d.into_context, bare(scratch.context.matrix()), {}};
  g.sources[1] = {cuda::bare_keys(d.d_noise), d.into_noise, bare(scratch.noise.matrix()), {}};
  cuda::backward(cuda, cuda::bare_problem(problem), g);
}

}  // namespace K3SPEC_NAMESPACE
