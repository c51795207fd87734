#pragma once
/// \file
/// Attention of chains of drafted tokens, one query of each: it sees a text's part of a cache, and of the chain's own
/// steps the one key each. This is ttt_attention_forward with one query behind as many keys as there are cached, of
/// texts with different numbers of them, and has its bits.
/// ```text
/// q [chains, heads·(nope+rope)]   heads of [nope ‖ rope]
/// kv [rows, heads·(nope+v)], k_rope [rows, rope]   of the cache; of the steps [chains, …]
/// o [chains, heads·v],  lse [chains, heads]
/// ```
/// Which rows of the cache a chain sees is on both sides (core/mirror.hpp) and has been uploaded. A backend brings
/// chain_attention_kernel with its tag.
/// defines: chain_attention

#include <k3spec/backend/cpu/chain_attention.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/ttt_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// q, keys and the cache -> the result, see above.
/// \param cached  problem.cached as the host knows it
/// \throws Error on shapes that do not fit the queries, and on rows that the cache has not
template <Device D, class Heads, class T>
void chain_attention(const D& device, const ChainAttention<Heads, T>& problem, const Vector<const CachedRows>& cached,
                     const AttentionResult<T>& result) {
  const index_t n = problem.q.extent(0), rows = problem.cache.kv.extent(0);
  require_shape("chain_attention: q", problem.q, n, Heads::count * Heads::qk);
  require_shape("chain_attention: cache: kv", problem.cache.kv, rows, Heads::count * Heads::kv);
  require_shape("chain_attention: cache: k_rope", problem.cache.k_rope, rows, Heads::rope);
  for (index_t k = 0; k < problem.steps.count; ++k) {
    require_shape("chain_attention: steps: kv", problem.steps[k].kv, n, Heads::count * Heads::kv);
    require_shape("chain_attention: steps: k_rope", problem.steps[k].k_rope, n, Heads::rope);
  }
  require_shape("chain_attention: o", result.o, n, Heads::count * Heads::v);
  require_shape("chain_attention: lse", result.lse, n, Heads::count);
  require_rows("chain_attention: cached", problem.cached, n);
  require_rows("chain_attention: cached", cached, n);
  for (index_t i = 0; i < n; ++i) {
    require_part("chain_attention: cached rows", cached(i).begin, cached(i).count, rows);
    if (cached(i).count < 1) throw Error("chain_attention: cached rows", "none", "at least one");
  }
  chain_attention_kernel(device, problem, result);
}

}  // namespace K3SPEC_NAMESPACE
