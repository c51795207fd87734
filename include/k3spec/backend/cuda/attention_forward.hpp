#pragma once
/// \file
/// Attention's forward pass on a card: a block has a tile of one head's queries and walks over the tiles of keys that
/// any of them sees, with the softmax's sums running along. One kernel for all patterns (attention_sources.hpp).
/// defines: cuda::SeenKeys, cuda::attention_forward

#include <limits>

#include <k3spec/backend/cuda/attention_sources.hpp>
#include <k3spec/backend/cuda/attention_tile.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// What a block's queries see of a source's keys.
/// \tparam Tile  AttentionTile
template <class Sources, class Tile>
struct SeenKeys {
  Interval all;                  ///< that some of the queries may see; none of them: empty
  Interval own[Tile::per_warp];  ///< that each query of this warp may see

  /// A lane asks for one query, and tells the others. All lanes.
  __device__ static SeenKeys of(const Sources& p, int source, const AttentionPlace& at) {
    static_assert(Tile::own <= warp);
    const int query = Tile::lane() % Tile::own;
    const Interval one = query < at.count ? p.seen(source, at.sequence, at.begin + query) : Interval{0, 0};
    SeenKeys s;
    s.all.begin = one.size() > 0 ? one.begin : std::numeric_limits<index_t>::max();
    s.all.begin = Tile::across(s.all.begin, [](index_t a, index_t b) { return a < b ? a : b; });
    s.all.end = Tile::across(one.size() > 0 ? one.end : 0, [](index_t a, index_t b) { return a < b ? b : a; });
    K3SPEC_UNROLL
    for (int n = 0; n < Tile::per_warp; ++n) {
      s.own[n].begin = __shfl_sync(~0U, one.begin, Tile::first_row() + n);
      s.own[n].end = __shfl_sync(~0U, one.end, Tile::first_row() + n);
    }
    return s;
  }
  /// Whether query n of this warp sees a key.
  __device__ bool sees(const Sources& p, int source, const AttentionPlace& at, int n, index_t key) const {
    return own[n].begin <= key && key < own[n].end &&
           p.sees(source, at.sequence, at.begin + Tile::first_row() + n, key);
  }
};

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
      const auto seen = SeenKeys<Sources, Tile>::of(p, source, at);
      for (index_t key = seen.all.begin; key < seen.all.end; key += warp) {
        const auto sees = [&](int n) { return seen.sees(p, source, at, n, key + Tile::lane()); };
        unsigned pairs = 0;
        if (!Tile::tile_is_seen(sees, pairs)) continue;
        const index_t rows = seen.all.end - key < warp ? seen.all.end - key : warp;
        const KeyRows<Heads, const typename Sources::Element> keys{p.keys(source), at.sequence * p.rows(source) + key,
                                                                   at.head};
        S score[N] = {};
        Tile::add_dots(
            q, staged, rows, [&](int r, int d) { return keys.key(r, d); }, score);
        K3SPEC_UNROLL
        for (int n = 0; n < N; ++n) {
          const bool in = (pairs >> n & 1U) != 0;
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
