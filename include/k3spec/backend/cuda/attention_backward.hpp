#pragma once
/// \file
/// Attention's backward pass on a card, without atomics: one kernel over tiles of queries, which makes what each
/// query's gradient is, and one over tiles of keys, which makes theirs; both make the weights again from the saved
/// sums. The slices that all heads share get their gradients per head first; a third kernel adds them up, in the heads'
/// order.
/// defines: cuda::AttentionGradients, cuda::attention_queries_backward, cuda::attention_keys_backward,
///          cuda::attention_shared_keys_backward

#include <k3spec/backend/cuda/attention_forward.hpp>
#include <k3spec/backend/product.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// What backward reads beside the problem, and where its results go. Views are bare.
template <class T, class S>
struct AttentionGradients {
  static constexpr int most = static_cast<int>(max_attention_steps);
  Matrix<const T> o;
  Matrix<const LogSumExp<S>> lse;
  Matrix<const S> d_o;
  Matrix<S> d_q;
  Into into_q = Into::overwrite;
  Matrix<S> delta;  ///< [rows, heads] d_o · o, made by the queries' kernel
  /// Of a source: its keys' gradients, those of the shared slice per head [rows, heads·rope] or, where each key is seen
  /// by the query of its own row alone, the scores' [rows, heads].
  struct Source {
    AttentionKeys<S> keys;
    Into into = Into::nothing;
    Matrix<S> per_head, d_scores;
  };
  Source sources[most];
};

/// The weight of a key, and the gradient of its score.
template <class S>
struct ScoreGradient {
  S weight, d_score;

  /// Of a key that is seen.
  /// \param dot, d_weight  q · k and d_o · v
  __device__ static ScoreGradient of(S dot, S d_weight, const LogSumExp<S>& sums, S delta, S scale) {
    const S weight = functor::Exp::value((dot * scale - sums.top) - sums.log_mass);
    return {weight, weight * (d_weight - delta) * scale};
  }
};

/// Stores a gradient, or adds it.
template <class S>
__device__ void put(S& to, S value, Into into) {
  to = into == Into::accumulate ? to + value : value;
}

/// delta, d_q, and the scores' gradients where a source wants them.
template <class Sources, class T, class S>
__global__ void __launch_bounds__(AttentionTile<S>::threads, 2)
    attention_queries_backward(Sources p, AttentionGradients<T, S> g) {
  using Heads = typename Sources::Heads;
  using Tile = AttentionTile<S>;
  constexpr int N = Tile::per_warp, Q = Tile::lanes_columns(Heads::qk);
  __shared__ S q[Tile::own][Heads::qk], d_o[Tile::own][Heads::v];
  __shared__ typename Tile::Staged staged;
  const S scale = p.problem.scale;
  Tile::for_tiles(p.sequences(), Heads::count, p.queries(), [&](const AttentionPlace& at) {
    const index_t first = at.sequence * p.queries() + at.begin;
    __syncthreads();
    Tile::stage_own(q, at.count, [&](int r, int d) { return p.problem.q.row(first + r)[at.head * Heads::qk + d]; });
    Tile::stage_own(d_o, at.count, [&](int r, int d) { return g.d_o.row(first + r)[at.head * Heads::v + d]; });
    __syncthreads();
    S delta[N], sum[N][Q];
    LogSumExp<S> lse[N];
    for (int n = 0; n < N; ++n) {
      const int own = Tile::first_row() + n;
      const bool there = own < at.count;
      const index_t row = first + (there ? own : 0);
      S x = 0;
      for (int d = Tile::lane(); there && d < Heads::v; d += warp) {
        x = std::fma(d_o[own][d], static_cast<S>(g.o.row(row)[at.head * Heads::v + d]), x);
      }
      delta[n] = Tile::sum(x);
      lse[n] = g.lse(row, at.head);
      if (there && Tile::lane() == 0) g.delta(row, at.head) = delta[n];
      for (int j = 0; j < Q; ++j) sum[n][j] = 0;
    }
    for (int source = 0; source < p.count(); ++source) {
      const auto seen = SeenKeys<Sources, Tile>::of(p, source, at);
      for (index_t key = seen.all.begin; key < seen.all.end; key += warp) {
        const auto sees = [&](int n) { return seen.sees(p, source, at, n, key + Tile::lane()); };
        unsigned pairs = 0;
        if (!Tile::tile_is_seen(sees, pairs)) continue;
        const index_t rows = seen.all.end - key < warp ? seen.all.end - key : warp;
        const KeyRows<Heads, const T> keys{p.keys(source), at.sequence * p.rows(source) + key, at.head};
        S dot[N] = {}, d_weight[N] = {};
        Tile::add_dots(
            q, staged, rows, [&](int r, int d) { return keys.key(r, d); }, dot);
        Tile::add_dots(
            d_o, staged, rows, [&](int r, int d) { return keys.value(r, d); }, d_weight);
        K3SPEC_UNROLL
        for (int n = 0; n < N; ++n) {
          const int own = Tile::first_row() + n;
          const bool in = (pairs >> n & 1U) != 0;
          const S d_score = ScoreGradient<S>::of(dot[n], d_weight[n], lse[n], delta[n], scale).d_score;
          const auto& to = g.sources[source];
          if (in && to.d_scores.data() != nullptr) to.d_scores(first + own, at.head) = d_score;
          if (g.into_q == Into::nothing) continue;
          Tile::template add_weighted<Heads::qk>(
              in, d_score, [&](int r, int d) { return keys.key(r, d); }, sum[n]);
        }
      }
    }
    if (g.into_q == Into::nothing) return;
    for (int n = 0; n < N; ++n) {
      const int own = Tile::first_row() + n;
      if (own >= at.count) continue;
      K3SPEC_UNROLL
      for (int j = 0; j < Q; ++j) {
        const int d = Tile::lane() + j * warp;
        if (d < Heads::qk) put(g.d_q.row(first + own)[at.head * Heads::qk + d], sum[n][j], g.into_q);
      }
    }
  });
}

/// The gradients of a source's keys and values, those of the shared slice per head.
template <class Sources, class T, class S>
__global__ void __launch_bounds__(AttentionTile<S>::threads, 2)
    attention_keys_backward(Sources p, AttentionGradients<T, S> g) {
  using Heads = typename Sources::Heads;
  using Tile = AttentionTile<S>;
  constexpr int N = Tile::per_warp, K = Tile::lanes_columns(Heads::qk), V = Tile::lanes_columns(Heads::v);
  __shared__ S key[Tile::own][Heads::qk], value[Tile::own][Heads::v];
  __shared__ typename Tile::Staged staged;
  const S scale = p.problem.scale;
  for (int source = 0; source < p.count(); ++source) {
    const auto& to = g.sources[source];
    if (to.into == Into::nothing) continue;
    Tile::for_tiles(p.sequences(), Heads::count, p.rows(source), [&](const AttentionPlace& at) {
      const index_t first = at.sequence * p.rows(source) + at.begin;
      const KeyRows<Heads, const T> keys{p.keys(source), first, at.head};
      __syncthreads();
      Tile::stage_own(key, at.count, [&](int r, int d) { return keys.key(r, d); });
      Tile::stage_own(value, at.count, [&](int r, int d) { return keys.value(r, d); });
      S d_key[N][K], d_value[N][V];
      for (int n = 0; n < N; ++n) {
        for (int j = 0; j < K; ++j) d_key[n][j] = 0;
        for (int j = 0; j < V; ++j) d_value[n][j] = 0;
      }
      const Interval own{at.begin, at.begin + at.count};
      const Interval askers = p.askers(source, at.sequence, own);
      for (index_t query = askers.begin; query < askers.end; query += warp) {
        const index_t rows = askers.end - query < warp ? askers.end - query : warp;
        const bool there = Tile::lane() < rows;
        const index_t mine = query + (there ? Tile::lane() : 0), row = at.sequence * p.queries() + mine;
        const Interval seen = there ? p.seen(source, at.sequence, mine) : Interval{0, 0};
        const auto sees = [&](int n) {
          const index_t k = at.begin + Tile::first_row() + n;
          return k < own.end && seen.begin <= k && k < seen.end && p.sees(source, at.sequence, mine, k);
        };
        unsigned pairs = 0;
        if (!Tile::tile_is_seen(sees, pairs)) continue;
        const index_t first_query = at.sequence * p.queries() + query;
        const auto load_q = [&](int r, int d) { return p.problem.q.row(first_query + r)[at.head * Heads::qk + d]; };
        const auto load_d_o = [&](int r, int d) { return g.d_o.row(first_query + r)[at.head * Heads::v + d]; };
        S dot[N] = {}, d_weight[N] = {};
        Tile::add_dots(key, staged, rows, load_q, dot);
        Tile::add_dots(value, staged, rows, load_d_o, d_weight);
        const LogSumExp<S> lse = g.lse(row, at.head);
        const S delta = g.delta(row, at.head);
        K3SPEC_UNROLL
        for (int n = 0; n < N; ++n) {
          const bool in = (pairs >> n & 1U) != 0;
          const auto [weight, d_score] = ScoreGradient<S>::of(dot[n], d_weight[n], lse, delta, scale);
          Tile::template add_weighted<Heads::qk>(in, d_score, load_q, d_key[n]);
          Tile::template add_weighted<Heads::v>(in, weight, load_d_o, d_value[n]);
        }
      }
      for (int n = 0; n < N; ++n) {
        const int r = Tile::first_row() + n;
        if (r >= at.count) continue;
        S* const kv = to.keys.kv.row(first + r) + at.head * Heads::kv;
        K3SPEC_UNROLL
        for (int j = 0; j < K; ++j) {
          const int d = Tile::lane() + j * warp;
          if (d < Heads::nope) {
            put(kv[d], d_key[n][j], to.into);
          } else if (d < Heads::qk && to.per_head.data() != nullptr) {
            to.per_head.row(first + r)[at.head * Heads::rope + d - Heads::nope] = d_key[n][j];
          }
        }
        K3SPEC_UNROLL
        for (int j = 0; j < V; ++j) {
          const int d = Tile::lane() + j * warp;
          if (d < Heads::v) put(kv[Heads::nope + d], d_value[n][j], to.into);
        }
      }
    });
  }
}

/// The shared slices' gradients, of all sources.
template <class Sources, class T, class S>
__global__ void __launch_bounds__(256) attention_shared_keys_backward(Sources p, AttentionGradients<T, S> g) {
  using Heads = typename Sources::Heads;
  for (int source = 0; source < p.count(); ++source) {
    const auto& to = g.sources[source];
    if (to.into == Into::nothing) continue;
    const index_t size = p.sequences() * p.rows(source) * Heads::rope;
    for (index_t i = index_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += index_t{gridDim.x} * blockDim.x) {
      const index_t row = i / Heads::rope, d = i % Heads::rope;
      S sum = 0;
      for (index_t h = 0; h < Heads::count; ++h) {
        if (to.per_head.data() != nullptr) {
          sum += to.per_head.row(row)[h * Heads::rope + d];
        } else {
          sum =
              std::fma(to.d_scores(row, h), static_cast<S>(p.problem.q.row(row)[h * Heads::qk + Heads::nope + d]), sum);
        }
      }
      put(to.keys.k_rope.row(row)[d], sum, to.into);
    }
  }
}

}  // namespace K3SPEC_NAMESPACE::cuda
