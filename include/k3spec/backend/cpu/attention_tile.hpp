#pragma once
/// \file
/// Softmax attention of at most query_tile queries of one head, a tile of at most key_tile keys at a time: what the
/// attention ops share. With s = scale · q·k and p = softmax(s) over the keys that a query sees,
/// ```text
/// forward    o = Σ p v, lse = log Σ exp(s) as its two terms max s and log Σ exp(s - max s); weights are relative to
///            the largest score so far, and what was summed before is rescaled when that grows
/// backward   p = exp((s - max s) - log Σ exp(s - max s)); dV += pᵀ dO, dS = p ⊙ (dO Vᵀ - delta) · scale, dQ += dS
///            K, dK += dSᵀ Q; delta = Σ dO ⊙ O of each query
/// ```
/// A query's row of every sum is its own chain over the keys in the order in which they are added. Keys that it does
/// not see add 0 times their value.
/// defines: cpu::AttentionTile

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/few_queries.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/lane_chains.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/running_softmax.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// Softmax attention of a tile of queries over tiles of keys, for one head.
template <class H>
struct AttentionTile {
  static constexpr index_t Heads = H::count, Nope = H::nope, Rope = H::rope, V = H::v, qk = H::qk, kv = H::kv;
  static constexpr index_t query_tile = 32, key_tile = 64;

  /// Keys and values of one head: `count` rows of [nope], [rope], [v].
  template <class T>
  struct Keys {
    Rows<T, Nope> nope;
    Rows<T, Rope> rope;
    Rows<T, V> v;

    index_t count() const { return nope.extent(0); }
  };

  /// Columns [begin, begin + Width) of rows [row, row + count).
  template <index_t Width, class T>
  static Rows<T, Width> block(const Matrix<T>& m, index_t row, index_t count, index_t begin) {
    return Rows<T, Width>(m.row(row) + begin, Extents<dyn, Width>(count), m.row_stride());
  }

  /// Rows [row, row + count) of a head; `rope_head` is where k_rope has a slice for each head, as its gradient has.
  template <class T>
  static Keys<T> keys(const AttentionKeys<T>& all, index_t row, index_t count, index_t head, index_t rope_head = 0) {
    return {block<Nope>(all.kv, row, count, head * kv), block<Rope>(all.k_rope, row, count, rope_head * Rope),
            block<V>(all.kv, row, count, head * kv + Nope)};
  }

  template <class A, class B>
  static auto dot(const A* a, const B* b, index_t n) {
    using S = accumulate_t<A>;
    LaneChains<S> total;
    for_chains<S>(n, [&](auto p, index_t j, index_t m) {
      total[p] = fma(detail::load_as<S>(a + j, m), detail::load_as<S>(b + j, m), total[p]);
    });
    return total.total();
  }

  /// y[j] += a · x[j]
  template <class S, class X>
  static void axpy(S a, const X* x, S* y, index_t n) {
    for (index_t j = 0; j < n; j += Packet<S>::width) {
      const index_t m = std::min(Packet<S>::width, n - j);
      fma(Packet<S>(a), Packet<S>::load_first(x + j, m), Packet<S>::load_first(y + j, m)).store_first(y + j, m);
    }
  }

  template <AnyView M>
  static void zero(const M& m) {
    for (index_t r = 0; r < m.extent(0); ++r) std::fill_n(m.row(r), m.extent(1), typename M::value_type(0));
  }

  /// scores [n, m] = q kᵀ, not scaled; q [n, qk]. Rows of scores have room for whole packets.
  template <class T, class S>
  static void score(const Rows<const T, qk>& q, const Keys<const T>& k, const Matrix<S>& scores) {
    if constexpr (few_queries < H >> 0) {
      if (q.extent(0) <= few_queries<H>) return FewQueries<H>::template score<T, S>(q, k.nope, k.rope, scores);
    }
    gemm<Op::plain, Op::transposed>(Cpu{1}, q.template columns<0, Nope>(), k.nope, scores);
    gemm<Op::plain, Op::transposed>(Cpu{1}, q.template columns<Nope, Rope>(), k.rope, scores, Into::accumulate);
  }

  /// Which of m keys are seen, 1 or 0: loops over these are turned into packets.
  using Marks = std::array<std::uint8_t, key_tile>;
  template <class Sees>
  static Marks marks(const Sees& sees, index_t m) {
    Marks seen;
    if constexpr (requires { sees.mark(m, seen.data()); }) {
      sees.mark(m, seen.data());
    } else {
      for (index_t j = 0; j < m; ++j) seen[static_cast<std::size_t>(j)] = sees(j);
    }
    return seen;
  }

  /// What is left of m scores' last packet becomes that of keys not seen; rows have room for it.
  template <class S>
  static void fill_packet(S* p, index_t m) {
    static_assert(key_tile % Packet<S>::width == 0);
    for (; m % Packet<S>::width != 0; ++m) p[m] = -std::numeric_limits<S>::infinity();
  }

  /// The softmax and its sums as they grow. q [n, qk].
  template <class T>
  struct Forward {
    using S = accumulate_t<T>;
    Rows<const T, qk> q;
    S scale;
    // Of as many queries as there are.
    alignas(64) std::array<S, query_tile * key_tile> scores;
    alignas(64) std::array<S, static_cast<std::size_t>(query_tile* V)> sums;
    std::array<RunningSoftmax<S>, query_tile> softmax;
    std::array<bool, query_tile> seen{};  // any key at all

    Forward(const Rows<const T, qk>& queries, S of_scores) : q(queries), scale(of_scores) {
      std::fill_n(sums.data(), q.extent(0) * V, S(0));
    }

    /// Adds keys to queries [first, first + n). sees(i) is a function that says which key j query i sees.
    template <class Sees>
    void add(index_t first, index_t n, const Keys<const T>& k, const Sees& sees) {
      const Matrix<S> p(scores.data(), Extents<dyn, dyn>(n, k.count()), key_tile);
      score(q.rows(first, n), k, p);
      for (index_t i = 0; i < n; ++i) weigh(first + i, p.row(i), k.count(), sees(first + i));
      gemm<Op::plain, Op::plain>(Cpu{1}, p, k.v, Rows<S, V>(sums.data() + first * V, n), Into::accumulate);
    }

    /// Adds one key to query i; its score is scaled already.
    void add_one(index_t i, S score, const T* v) {
      const auto n = static_cast<std::size_t>(i);
      seen[n] = true;
      const auto [weight, factor] = softmax[n].add_one(score);
      rescale(i, factor);
      axpy(weight, v, sums.data() + i * V, V);
    }

    /// o [n, V] and lse [n, 1].
    void finish(const Rows<T, V>& o, const Rows<LogSumExp<S>, 1>& lse) const {
      for (index_t i = 0; i < q.extent(0); ++i) {
        const auto n = static_cast<std::size_t>(i);
        const S mass = softmax[n].total;
        const S* from = sums.data() + i * V;
        T* to = o.row(i);
        for (index_t j = 0; j < V; ++j) to[j] = static_cast<T>(seen[n] ? from[j] / mass : S(0));
        *lse.row(i) = seen[n] ? LogSumExp<S>{softmax[n].top, std::log(mass)} : LogSumExp<S>::nothing();
      }
    }

   private:
    /// Turns a row of scores into weights relative to its new maximum and rescales what was summed before.
    template <class Sees>
    void weigh(index_t i, S* p, index_t m, const Sees& sees) {
      const S factor = scale;
      const Marks all = marks(sees, m);
      const std::uint8_t* visible = all.data();
      std::uint8_t sees_any = 0;
      for (index_t j = 0; j < m; ++j) {
        p[j] = visible[j] != 0 ? p[j] * factor : -std::numeric_limits<S>::infinity();
        sees_any |= visible[j];
      }
      fill_packet(p, m);
      if (sees_any == 0) return std::fill_n(p, m, S(0)), void();
      seen[static_cast<std::size_t>(i)] = true;
      rescale(i, softmax[static_cast<std::size_t>(i)].add(p, m));
    }

    /// Brings what was summed to the scale of a larger score.
    void rescale(index_t i, S factor) {
      if (factor == S(1)) return;
      for (index_t j = 0; j < V; ++j) sums[static_cast<std::size_t>(i * V + j)] *= factor;
    }
  };

  /// Gradients of one head's queries. q, d_q [n, qk], o, d_o [n, V], lse [n, 1]; a d_q of nothing is not wanted.
  template <class T>
  struct Backward {
    using S = accumulate_t<T>;
    Rows<const T, qk> q;
    Rows<const LogSumExp<S>, 1> lse;
    Rows<const S, V> d_o;
    Rows<S, qk> d_q;
    S scale;
    std::array<S, query_tile> delta{};  // Σ d_o · o of each query
    alignas(64) std::array<S, query_tile * key_tile> weights{}, d_scores{};

    Backward(const Rows<const T, qk>& queries, const Rows<const T, V>& o, const Rows<const LogSumExp<S>, 1>& log_sums,
             const Rows<const S, V>& d_out, const Rows<S, qk>& d_queries, S of_scores)
        : q(queries), lse(log_sums), d_o(d_out), d_q(d_queries), scale(of_scores) {
      for (index_t i = 0; i < q.extent(0); ++i) delta[static_cast<std::size_t>(i)] = dot(d_o.row(i), o.row(i), V);
    }

    /// Adds the share of keys that queries [first, first + n) had to d_q and d_k; a d_k of nothing is not wanted.
    template <class Sees>
    void add(index_t first, index_t n, const Keys<const T>& k, const Keys<S>& d_k, const Sees& sees) {
      const Matrix<S> p(weights.data(), Extents<dyn, dyn>(n, k.count()), key_tile);
      const Matrix<S> d_s(d_scores.data(), Extents<dyn, dyn>(n, k.count()), key_tile);
      const auto d_out = d_o.rows(first, n);
      score(q.rows(first, n), k, p);
      for (index_t i = 0; i < n; ++i) weigh(p.row(i), k.count(), *lse.row(first + i), sees(first + i));
      if (d_k.v.data() != nullptr) gemm<Op::transposed, Op::plain>(Cpu{1}, p, d_out, d_k.v, Into::accumulate);
      gemm<Op::plain, Op::transposed>(Cpu{1}, d_out, k.v, d_s);
      for (index_t i = 0; i < n; ++i) differentiate_scores(p.row(i), d_s.row(i), k.count(), first + i);
      if (d_q.data() != nullptr) add_to_queries(d_s, k, d_q.rows(first, n));
      if (d_k.v.data() != nullptr) add_to_keys(d_s, q.rows(first, n), d_k);
    }

   private:
    static void add_to_queries(const Matrix<S>& d_s, const Keys<const T>& k, const Rows<S, qk>& d_queries) {
      gemm<Op::plain, Op::plain>(Cpu{1}, d_s, k.nope, d_queries.template columns<0, Nope>(), Into::accumulate);
      gemm<Op::plain, Op::plain>(Cpu{1}, d_s, k.rope, d_queries.template columns<Nope, Rope>(), Into::accumulate);
    }

    static void add_to_keys(const Matrix<S>& d_s, const Rows<const T, qk>& queries, const Keys<S>& d_k) {
      gemm<Op::transposed, Op::plain>(Cpu{1}, d_s, queries.template columns<0, Nope>(), d_k.nope, Into::accumulate);
      gemm<Op::transposed, Op::plain>(Cpu{1}, d_s, queries.template columns<Nope, Rope>(), d_k.rope, Into::accumulate);
    }

    template <class Sees>
    void weigh(S* p, index_t m, const LogSumExp<S>& sum, const Sees& sees) const {
      const S factor = scale, top = sum.top, log_mass = sum.log_mass;
      const Marks all = marks(sees, m);
      const std::uint8_t* visible = all.data();
      for (index_t j = 0; j < m; ++j) {
        p[j] = visible[j] != 0 ? (p[j] * factor - top) - log_mass : -std::numeric_limits<S>::infinity();
      }
      fill_packet(p, m);
      for (index_t j = 0; j < m; j += Packet<S>::width) exp(Packet<S>::load(p + j)).store(p + j);
    }

    void differentiate_scores(const S* p, S* d, index_t m, index_t i) const {
      const S factor = scale, middle = delta[static_cast<std::size_t>(i)];
      for (index_t j = 0; j < m; ++j) d[j] = p[j] * (d[j] - middle) * factor;
    }
  };

  /// The rope slice of a key is shared: d_k_rope [rope] += Σ of the heads' slices per_head [Heads·rope], in their
  /// order.
  template <class S>
  static void sum_heads(const S* per_head, S* d_k_rope) {
    for (index_t h = 0; h < Heads; ++h) axpy(S(1), per_head + h * Rope, d_k_rope, Rope);
  }
};

}  // namespace K3SPEC_NAMESPACE::cpu
