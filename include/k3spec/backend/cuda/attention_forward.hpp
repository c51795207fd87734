#pragma once
/// \file
/// Attention's forward pass on a card: a block has a tile of one head's queries and walks over the tiles of keys that
/// any of them sees, with the softmax's sums running along. One kernel for all patterns (attention_sources.hpp).
/// defines: cuda::attention_forward

#include <limits>

#include <k3spec/backend/cuda/attention_sources.hpp>
#include <k3spec/backend/cuda/attention_tile.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// The keys that some of a tile's queries may see.
template <class Sources>
__device__ Interval seen_by_tile(const Sources& p, int source, const AttentionPlace& at) {
  Interval all{0, 0};
  for (index_t i = 0; i < at.count; ++i) {
    const Interval one = p.seen(source, at.sequence, at.begin + i);
    if (one.size() == 0) continue;
    if (all.size() == 0) all = one;
    if (one.begin < all.begin) all.begin = one.begin;
    if (one.end > all.end) all.end = one.end;
  }
  return all;
}
/// Whether a query sees a key.
template <class Sources>
__device__ bool sees(const Sources& p, int source, const AttentionPlace& at, int query, index_t key) {
  if (query >= at.count) return false;
  const Interval seen = p.seen(source, at.sequence, at.begin + query);
  return seen.begin <= key && key < seen.end && p.sees(source, at.sequence, at.begin + query, key);
}

/// o and lse of all queries; a query that sees nothing has zeros and LogSumExp::nothing.
template <class Sources, class T, class S>
__global__ void __launch_bounds__(AttentionTile<S>::threads, 2)
    attention_forward(Sources p, Matrix<T> o, Matrix<LogSumExp<S>> lse) {
  using Heads = typename Sources::Heads;
  using Tile = AttentionTile<S>;
  constexpr int N = Tile::per_warp, V = Tile::lanes_columns(Heads::v);
  __shared__ S q[Tile::own][Heads::qk];
  __shared__ typename Tile::Staged staged;
  const S scale = p.problem.scale;
  Tile::for_tiles(p.sequences(), Heads::count, p.queries(), [&](const AttentionPlace& at) {
    const index_t first = at.sequence * p.queries() + at.begin;
    __syncthreads();
    Tile::stage_own(q, at.count, [&](int r, int d) { return p.problem.q.row(first + r)[at.head * Heads::qk + d]; });
    S top[N], mass[N], sum[N][V];
    bool saw[N] = {};
    for (int n = 0; n < N; ++n) {
      top[n] = -std::numeric_limits<S>::infinity(), mass[n] = 0;
      for (int j = 0; j < V; ++j) sum[n][j] = 0;
    }
    for (int source = 0; source < p.count(); ++source) {
      const Interval all = seen_by_tile(p, source, at);
      for (index_t key = all.begin; key < all.end; key += warp) {
        const index_t rows = all.end - key < warp ? all.end - key : warp;
        const KeyRows<Heads, const typename Sources::Element> keys{p.keys(source), at.sequence * p.rows(source) + key,
                                                                   at.head};
        S score[N] = {};
        Tile::add_dots(
            q, staged, rows, [&](int r, int d) { return keys.key(r, d); }, score);
        K3SPEC_UNROLL
        for (int n = 0; n < N; ++n) {
          const bool in = sees(p, source, at, Tile::first_row() + n, key + Tile::lane());
          const S x = in ? score[n] * scale : -std::numeric_limits<S>::infinity();
          const S largest = Tile::largest(x);
          if (!__any_sync(~0U, in)) continue;
          saw[n] = true;
          const S before = top[n];
          top[n] = before < largest ? largest : before;
          // A score of -infinity, or the first tile: what was summed up is 0 then.
          const S shrunk = before == top[n] ? S(1) : functor::Exp::value(before - top[n]);
          const S weight = in ? functor::Exp::value(x - top[n]) : S(0);
          mass[n] = std::fma(mass[n], shrunk, Tile::sum(weight));
          K3SPEC_UNROLL
          for (int j = 0; j < V; ++j) sum[n][j] *= shrunk;
          Tile::template add_weighted<Heads::v>(
              in, weight, [&](int r, int d) { return keys.value(r, d); }, sum[n]);
        }
      }
    }
    for (int n = 0; n < N; ++n) {
      const index_t row = Tile::first_row() + n;
      if (row >= at.count) continue;
      K3SPEC_UNROLL
      for (int j = 0; j < V; ++j) {
        const int d = Tile::lane() + j * warp;
        if (d < Heads::v) o.row(first + row)[at.head * Heads::v + d] = T(saw[n] ? sum[n][j] / mass[n] : S(0));
      }
      if (Tile::lane() == 0) {
        lse(first + row, at.head) =
            saw[n] ? LogSumExp<S>{top[n], functor::Log::value(mass[n])} : LogSumExp<S>::nothing();
      }
    }
  });
}

}  // namespace K3SPEC_NAMESPACE::cuda
