#pragma once
/// \file
/// The attention of drafted chains on the CPU (ops/chain_attention.hpp): a chain's is that of a step of test-time
/// training with one query. Several chains are shared among the threads, one alone is their common work.
/// defines: chain_attention_kernel

#include <k3spec/backend/chain_attention.hpp>
#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/ttt_attention.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
template <class Heads, class T>
TttProblem<Heads, T, CausalVisibility> problem_of_chain(const ChainAttention<Heads, T>& all, index_t chain) {
  const auto [begin, count] = all.cached(chain);
  AttentionSteps<const T> steps;
  steps.add({all.cache.kv.rows(begin, count), all.cache.k_rope.rows(begin, count)});
  for (index_t k = 0; k < all.steps.count; ++k) {
    steps.add({all.steps[k].kv.rows(chain, 1), all.steps[k].k_rope.rows(chain, 1)});
  }
  const AttentionSpan span{1, 1, count, count - 1};
  return {span, all.q.rows(chain, 1), steps, CausalVisibility{nullptr, count}, all.scale};
}
}  // namespace detail

/// See ops/chain_attention.hpp, which has compared the shapes.
template <class Heads, class T>
void chain_attention_kernel(const Cpu& device, const ChainAttention<Heads, T>& problem,
                            const AttentionResult<T>& result) {
  const index_t n = problem.q.extent(0);
  index_t keys = 0;
  for (index_t i = 0; i < n; ++i) keys += problem.cached(i).count;
  const Cpu enough = cpu::for_work(device, keys * Heads::count * (Heads::qk + Heads::v));
  parallel_for(n == 1 ? Cpu{1} : enough, n, [&](index_t i) {
    ttt_forward_kernel(n == 1 ? device : Cpu{1}, detail::problem_of_chain(problem, i),
                       AttentionResult<T>{result.o.rows(i, 1), result.lse.rows(i, 1)});
  });
}

}  // namespace K3SPEC_NAMESPACE
