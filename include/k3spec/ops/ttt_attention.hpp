#pragma once
/// \file
/// Attention of one test-time-training step (EAGLE-3, arXiv 2503.01840). Query i of step k sees the step-0 keys that
/// `visible` allows plus, for each later step s <= k, the one key of step s at its own position; one softmax over both.
/// Scores are q·k / sqrt(nope + rope). A query that sees nothing gives 0.
///
///   q   [sequences·queries, heads·(nope+rope)]     heads of [nope ‖ rope]
///   kv  [sequences·keys, heads·(nope+v)]           heads of [k_nope ‖ v]; later steps: [sequences·queries, …]
///   k_rope [sequences·keys, rope]                  shared by all heads
///   o   [sequences·queries, heads·v],  lse [sequences·queries, heads]  log of the softmax denominator
///
/// The score matrix exists one tile at a time. Tiles begin at multiples of key_tile from key 0 and keys are added in
/// ascending order, so a query's result does not depend on which queries or later keys stand beside it, as long as all
/// values are finite. A NaN that a query sees comes out as one.
/// Saved: q, kv, k_rope, o, lse.
/// defines: AttentionSpan, TttKeys, TttAttention

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/ops/visibility.hpp>

namespace k3spec {

/// How many sequences, queries and keys; query 0 stands at position `first` among the keys.
struct AttentionSpan {
  index_t sequences, queries, keys, first = 0;
};

/// Keys and values of one step.
template <class T>
struct TttKeys {
  Matrix<T> kv, k_rope;
};

template <index_t Heads, index_t Nope, index_t Rope, index_t V>
struct TttAttention {
  static constexpr index_t qk = Nope + Rope, kv = Nope + V;
  static constexpr index_t query_tile = 32, key_tile = 64;

  /// steps[0] holds the step-0 keys, steps[s] those of later step s.
  template <class T, class Visible>
  static void forward(const Cpu& cpu, const AttentionSpan& span, Matrix<const T> q,
                      std::span<const TttKeys<const T>> steps, const Visible& visible, Matrix<T> o,
                      Matrix<accumulate_t<T>> lse) {
    for_tiles(cpu, span, [&](const Place& at) { Forward<T, Visible>{span, q, steps, visible, o, lse, at}.run(); });
  }

  /// Scratch of backward: the score gradients of the diagonal and, per head, those of the shared rope slice.
  template <class S>
  struct Scratch {
    Rows<S, Heads * Rope> d_k_rope;
    View<S, dyn, dyn> d_diagonal;  // [later steps · rows, heads]

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows, index_t steps) {
      Scratch s;
      take_rows(a, rows, s.d_k_rope);
      const index_t n = (steps - 1) * rows;
      s.d_diagonal = Matrix<S>(a.template take<S>(n * Heads), n, Heads);
      return s;
    }
  };

  /// d_q is overwritten; d_steps (all steps' keys) accumulate.
  /// \throws Error unless every sequence has as many queries as keys and first is 0
  template <class T, class Visible>
  static void backward(const Cpu& cpu, const AttentionSpan& span, Matrix<const T> q,
                       std::span<const TttKeys<const T>> steps, const Visible& visible, Matrix<const T> o,
                       Matrix<const accumulate_t<T>> lse, Matrix<const accumulate_t<T>> d_o,
                       Matrix<accumulate_t<T>> d_q, std::span<const TttKeys<accumulate_t<T>>> d_steps, Arena& scratch) {
    using S = accumulate_t<T>;
    if (span.queries != span.keys || span.first != 0) {
      throw Error("attention backward: queries", std::to_string(span.queries) + " from " + std::to_string(span.first),
                  std::to_string(span.keys) + " from 0, as many as keys");
    }
    Scope scope(scratch);
    const index_t rows = span.sequences * span.queries;
    const auto s = Scratch<S>::allocate(scratch, rows, static_cast<index_t>(steps.size()));
    parallel_for(cpu, span.sequences * Heads, [&](index_t i) {
      Backward<T, Visible>{span, q, steps, visible, o, lse, d_o, d_q, d_steps, s, i / Heads, i % Heads}.run();
    });
    sum_heads(cpu, rows, q, d_steps, s);
  }

 private:
  /// One head's queries [query, query + count) of a sequence.
  struct Place {
    index_t sequence, head, query, count;
  };

  template <class F>
  static void for_tiles(const Cpu& cpu, const AttentionSpan& span, F&& f) {
    const index_t tiles = (span.queries + query_tile - 1) / query_tile;
    parallel_for(span.queries * span.keys * qk < 4096 ? Cpu{1} : cpu, span.sequences * Heads * tiles, [&](index_t i) {
      const index_t query = i % tiles * query_tile;
      f(Place{i / tiles / Heads, i / tiles % Heads, query, std::min(query_tile, span.queries - query)});
    });
  }

  /// Columns [begin, begin + width) of rows [row, row + count).
  template <class T>
  static Matrix<T> block(const Matrix<T>& m, index_t row, index_t count, index_t begin, index_t width) {
    return Matrix<T>(m.row(row) + begin, Extents<dyn, dyn>(count, width), m.row_stride());
  }

  template <class S>
  static S scale() {
    return S(1) / std::sqrt(static_cast<S>(qk));
  }

  template <class A, class B>
  static auto dot(const A* a, const B* b, index_t n) {
    using S = accumulate_t<A>;
    Packet<S> total(S(0));
    for (index_t j = 0; j < n; j += Packet<S>::width) {
      const index_t m = std::min(Packet<S>::width, n - j);
      total = fma(Packet<S>::load_first(a + j, m), Packet<S>::load_first(b + j, m), total);
    }
    return sum(total);
  }

  /// y[j] += a · x[j]
  template <class S, class X>
  static void axpy(S a, const X* x, S* y, index_t n) {
    for (index_t j = 0; j < n; j += Packet<S>::width) {
      const index_t m = std::min(Packet<S>::width, n - j);
      fma(Packet<S>(a), Packet<S>::load_first(x + j, m), Packet<S>::load_first(y + j, m)).store_first(y + j, m);
    }
  }

  /// scores [n, m] = q kᵀ of one head, not scaled
  template <class T, class S>
  static void score(Matrix<const T> q, const TttKeys<const T>& keys, index_t q_row, index_t n, index_t k_row, index_t m,
                    index_t head, Matrix<S> scores) {
    gemm(Cpu{1}, block(q, q_row, n, head * qk, Nope), Op::plain, block(keys.kv, k_row, m, head * kv, Nope),
         Op::transposed, scores);
    gemm(Cpu{1}, block(q, q_row, n, head * qk + Nope, Rope), Op::plain, block(keys.k_rope, k_row, m, 0, Rope),
         Op::transposed, scores, Into::accumulate);
  }

  /// The score of a query row with the key of the same row of a later step, scaled.
  template <class T>
  static auto diagonal_score(const Matrix<const T>& q, const TttKeys<const T>& keys, index_t row, index_t head) {
    const T* x = q.row(row) + head * qk;
    return (dot(x, keys.kv.row(row) + head * kv, Nope) + dot(x + Nope, keys.k_rope.row(row), Rope)) *
           scale<accumulate_t<T>>();
  }

  template <class T, class Visible>
  struct Forward {
    using S = accumulate_t<T>;
    const AttentionSpan& span;
    const Matrix<const T>& q;
    std::span<const TttKeys<const T>> steps;
    const Visible& visible;
    const Matrix<T>& o;
    const Matrix<S>& lse;
    Place at;

    alignas(64) std::array<S, query_tile * key_tile> scores{};
    alignas(64) std::array<S, query_tile * V> sums{};
    std::array<S, query_tile> top{}, total{};
    std::array<bool, query_tile> seen{};  // any key at all

    index_t row(index_t i) const { return at.sequence * span.queries + at.query + i; }
    index_t position(index_t i) const { return span.first + at.query + i; }

    void run() {
      top.fill(-std::numeric_limits<S>::infinity());
      const index_t end = std::min(span.keys, visible.end(at.sequence, position(at.count - 1)));
      for (index_t key = 0; key < end; key += key_tile) tile(key, std::min(key_tile, end - key));
      for (std::size_t s = 1; s < steps.size(); ++s) diagonal(steps[s]);
      finish();
    }

    void tile(index_t key, index_t m) {
      const index_t k_row = at.sequence * span.keys + key;
      const Matrix<S> p(scores.data(), Extents<dyn, dyn>(at.count, m), key_tile);
      score<T, S>(q, steps[0], row(0), at.count, k_row, m, at.head, p);
      for (index_t i = 0; i < at.count; ++i) weigh(i, key, m);
      const Matrix<S> out(sums.data(), at.count, V);
      gemm(Cpu{1}, p, Op::plain, block(steps[0].kv, k_row, m, at.head * kv + Nope, V), Op::plain, out,
           Into::accumulate);
    }

    /// Turns row i's scores into weights relative to its new maximum and rescales what was summed before.
    void weigh(index_t i, index_t key, index_t m) {
      S* p = scores.data() + i * key_tile;
      S peak = top[static_cast<std::size_t>(i)];
      bool sees_any = false;
      for (index_t j = 0; j < m; ++j) {
        const bool sees = visible(at.sequence, position(i), key + j);
        p[j] = sees ? p[j] * scale<S>() : -std::numeric_limits<S>::infinity();
        peak = std::max(peak, p[j]);
        sees_any = sees_any || sees;
      }
      if (!sees_any) return std::fill_n(p, m, S(0)), void();
      seen[static_cast<std::size_t>(i)] = true;
      rescale(i, peak);
      Packet<S> mass(S(0));
      for (index_t j = 0; j < m; j += Packet<S>::width) {
        const index_t n = std::min(Packet<S>::width, m - j);
        const auto e = cpu::fill_up(exp(Packet<S>::load_first(p + j, n) - Packet<S>(peak)), n, S(0));
        e.store_first(p + j, n);
        mass = mass + e;
      }
      total[static_cast<std::size_t>(i)] += sum(mass);
    }

    void rescale(index_t i, S peak) {
      auto& old = top[static_cast<std::size_t>(i)];
      if (peak == old) return;
      const S factor = std::exp(old - peak);
      old = peak;
      total[static_cast<std::size_t>(i)] *= factor;
      for (index_t j = 0; j < V; ++j) sums[static_cast<std::size_t>(i * V + j)] *= factor;
    }

    void diagonal(const TttKeys<const T>& keys) {
      for (index_t i = 0; i < at.count; ++i) {
        const S s = diagonal_score(q, keys, row(i), at.head);
        const auto n = static_cast<std::size_t>(i);
        seen[n] = true;
        rescale(i, std::max(top[n], s));
        const S weight = std::exp(s - top[n]);
        total[n] += weight;
        axpy(weight, keys.kv.row(row(i)) + at.head * kv + Nope, sums.data() + i * V, V);
      }
    }

    /// A row that saw nothing gets lse = +inf, so that every weight exp(score - lse) of it is 0.
    void finish() {
      for (index_t i = 0; i < at.count; ++i) {
        const auto n = static_cast<std::size_t>(i);
        const S mass = total[n];
        const S* from = sums.data() + i * V;
        T* to = o.row(row(i)) + at.head * V;
        for (index_t j = 0; j < V; ++j) to[j] = static_cast<T>(seen[n] ? from[j] / mass : S(0));
        lse(row(i), at.head) = seen[n] ? top[n] + std::log(mass) : std::numeric_limits<S>::infinity();
      }
    }
  };

  template <class T, class Visible>
  struct Backward {
    using S = accumulate_t<T>;
    const AttentionSpan& span;
    const Matrix<const T>& q;
    std::span<const TttKeys<const T>> steps;
    const Visible& visible;
    const Matrix<const T>& o;
    const Matrix<const S>&lse, d_o;
    const Matrix<S>& d_q;
    std::span<const TttKeys<S>> d_steps;
    const Scratch<S>& scratch;
    index_t sequence, head;

    alignas(64) std::array<S, query_tile * key_tile> weights{}, d_scores{};
    std::array<S, query_tile> centre{};  // Σ d_o · o of each query

    void run() {
      const index_t base = sequence * span.queries;
      zero(block(scratch.d_k_rope.matrix(), base, span.queries, head * Rope, Rope));
      zero(block(d_q, base, span.queries, head * qk, qk));
      for (index_t query = 0; query < span.queries; query += query_tile) {
        const index_t n = std::min(query_tile, span.queries - query), row = base + query;
        for (index_t i = 0; i < n; ++i) {
          centre[static_cast<std::size_t>(i)] = dot(d_o.row(row + i) + head * V, o.row(row + i) + head * V, V);
        }
        const index_t end = std::min(span.keys, visible.end(sequence, span.first + query + n - 1));
        for (index_t key = 0; key < end; key += key_tile) tile(query, n, key, std::min(key_tile, end - key));
        for (std::size_t s = 1; s < steps.size(); ++s) diagonal(s, row, n);
      }
    }

    static void zero(const Matrix<S>& m) {
      for (index_t r = 0; r < m.extent(0); ++r) std::fill_n(m.row(r), m.extent(1), S(0));
    }

    /// Recomputes the weights p of a tile; dV += pᵀ dO, then dS = p ⊙ (dO Vᵀ - centre) · scale to dQ and dK.
    void tile(index_t query, index_t n, index_t key, index_t m) {
      const index_t row = sequence * span.queries + query, k_row = sequence * span.keys + key;
      const Matrix<S> p(weights.data(), Extents<dyn, dyn>(n, m), key_tile);
      const Matrix<S> d_s(d_scores.data(), Extents<dyn, dyn>(n, m), key_tile);
      score<T, S>(q, steps[0], row, n, k_row, m, head, p);
      for (index_t i = 0; i < n; ++i) weigh(i, query, row, key, m);
      const auto d_out = block(d_o, row, n, head * V, V);
      const Cpu one{1};
      gemm(one, p, Op::transposed, d_out, Op::plain, block(d_steps[0].kv, k_row, m, head * kv + Nope, V),
           Into::accumulate);
      gemm(one, d_out, Op::plain, block(steps[0].kv, k_row, m, head * kv + Nope, V), Op::transposed, d_s);
      for (index_t i = 0; i < n; ++i) score_gradient(i, m);
      const auto d_query = [&](index_t at, index_t width) { return block(d_q, row, n, head * qk + at, width); };
      const auto queries = [&](index_t at, index_t width) { return block(q, row, n, head * qk + at, width); };
      gemm(one, d_s, Op::plain, block(steps[0].kv, k_row, m, head * kv, Nope), Op::plain, d_query(0, Nope),
           Into::accumulate);
      gemm(one, d_s, Op::plain, block(steps[0].k_rope, k_row, m, 0, Rope), Op::plain, d_query(Nope, Rope),
           Into::accumulate);
      gemm(one, d_s, Op::transposed, queries(0, Nope), Op::plain, block(d_steps[0].kv, k_row, m, head * kv, Nope),
           Into::accumulate);
      gemm(one, d_s, Op::transposed, queries(Nope, Rope), Op::plain,
           block(scratch.d_k_rope.matrix(), k_row, m, head * Rope, Rope), Into::accumulate);
    }

    void weigh(index_t i, index_t query, index_t row, index_t key, index_t m) {
      S* p = weights.data() + i * key_tile;
      const S log_mass = lse(row + i, head);
      for (index_t j = 0; j < m; ++j) {
        const bool sees = visible(sequence, span.first + query + i, key + j);
        p[j] = sees ? p[j] * scale<S>() - log_mass : -std::numeric_limits<S>::infinity();
      }
      for (index_t j = 0; j < m; j += Packet<S>::width) {
        const index_t n = std::min(Packet<S>::width, m - j);
        exp(Packet<S>::load_first(p + j, n)).store_first(p + j, n);
      }
    }

    void score_gradient(index_t i, index_t m) {
      const S* p = weights.data() + i * key_tile;
      S* d = d_scores.data() + i * key_tile;
      for (index_t j = 0; j < m; ++j) d[j] = p[j] * (d[j] - centre[static_cast<std::size_t>(i)]) * scale<S>();
    }

    void diagonal(std::size_t s, index_t row, index_t n) {
      const index_t rows = span.sequences * span.queries;
      for (index_t r = row; r < row + n; ++r) {
        const S weight = std::exp(diagonal_score(q, steps[s], r, head) - lse(r, head));
        const S* d_out = d_o.row(r) + head * V;
        const T* key = steps[s].kv.row(r) + head * kv;
        const S d = weight * (dot(d_out, key + Nope, V) - centre[static_cast<std::size_t>(r - row)]) * scale<S>();
        axpy(d, key, d_q.row(r) + head * qk, Nope);
        axpy(d, steps[s].k_rope.row(r), d_q.row(r) + head * qk + Nope, Rope);
        axpy(d, q.row(r) + head * qk, d_steps[s].kv.row(r) + head * kv, Nope);
        axpy(weight, d_out, d_steps[s].kv.row(r) + head * kv + Nope, V);
        scratch.d_diagonal((static_cast<index_t>(s) - 1) * rows + r, head) = d;
      }
    }
  };

  /// The rope slice of a key is shared: its gradient is the sum over heads, in their order.
  template <class T, class S>
  static void sum_heads(const Cpu& cpu, index_t rows, const Matrix<const T>& q, std::span<const TttKeys<S>> d_steps,
                        const Scratch<S>& scratch) {
    cpu::for_pieces(cpu, rows, Heads * Rope, false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        for (index_t h = 0; h < Heads; ++h)
          axpy(S(1), scratch.d_k_rope.row(r) + h * Rope, d_steps[0].k_rope.row(r), Rope);
        for (std::size_t s = 1; s < d_steps.size(); ++s) {
          const S* d = scratch.d_diagonal.row((static_cast<index_t>(s) - 1) * rows + r);
          for (index_t h = 0; h < Heads; ++h) axpy(d[h], q.row(r) + h * qk + Nope, d_steps[s].k_rope.row(r), Rope);
        }
      }
    });
  }
};

}  // namespace k3spec
