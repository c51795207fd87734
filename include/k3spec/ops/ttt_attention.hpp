#pragma once
/// \file
/// Attention of one test-time-training step (EAGLE-3, arXiv 2503.01840). Query i of step k sees the step-0 keys that
/// `visible` allows plus, for each later step s <= k, the one key of step s at its own position; one softmax over both.
/// Scores are q·k · scale, 1 / sqrt(nope + rope) unless another is asked for. A query that sees nothing gives 0.
/// ```text
/// q   [sequences·queries, heads·(nope+rope)]     heads of [nope ‖ rope]
/// kv  [sequences·keys, heads·(nope+v)]           heads of [k_nope ‖ v]; later steps: [sequences·queries, …]
/// k_rope [sequences·keys, rope]                  shared by all heads
/// o   [sequences·queries, heads·v],  lse [sequences·queries, heads]  log of the softmax denominator (LogSumExp)
/// ```
/// The score matrix exists one tile at a time. Queries that see the same first key, those of one document, are taken
/// together; tiles of keys begin at multiples of key_tile from there, and keys are added in ascending order. So a
/// query's result does not depend on which queries or later keys stand beside it, as long as all values are finite, nor
/// on other documents, whatever their values: a packed document has the bits that it has alone, gradients too. A NaN
/// that a query sees comes out as one.
/// Saved: q, kv, k_rope, o, lse.
/// defines: AttentionSpan, TttKeys, TttAttention

#include <cmath>
#include <span>
#include <string>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/attention_tile.hpp>
#include <k3spec/ops/visibility.hpp>

namespace K3SPEC_NAMESPACE {

/// How many sequences, queries and keys; query 0 stands at position `first` among the keys.
struct AttentionSpan {
  index_t sequences, queries, keys, first = 0;
};

/// Keys and values of one step.
template <class T>
using TttKeys = AttentionKeys<T>;

/// Attention of EAGLE-3's training steps, forward and backward.
template <index_t Heads, index_t Nope, index_t Rope, index_t V, class Scale = SqrtScale>
struct TttAttention {
  using Tile = AttentionTile<Heads, Nope, Rope, V, Scale>;
  static constexpr index_t qk = Tile::qk, kv = Tile::kv;
  static constexpr index_t query_tile = Tile::query_tile, key_tile = Tile::key_tile;

  /// steps[0] holds the step-0 keys, steps[s] those of later step s.
  /// \throws Error on shapes that do not fit the span
  template <class T, class Visible>
  static void forward(const Cpu& cpu, const AttentionSpan& span, Matrix<const T> q,
                      std::span<const TttKeys<const T>> steps, const Visible& visible, Matrix<T> o,
                      Matrix<LogSumExp<accumulate_t<T>>> lse) {
    check(span, q, steps, o, lse);
    for_tiles(cpu, span, [&](const Place& at) { forward_tile(span, q, steps, visible, o, lse, at); });
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
  /// \throws Error as forward does, and unless every sequence has as many queries as keys and first is 0
  template <class T, class Visible>
  static void backward(const Cpu& cpu, const AttentionSpan& span, Matrix<const T> q,
                       std::span<const TttKeys<const T>> steps, const Visible& visible, Matrix<const T> o,
                       Matrix<const LogSumExp<accumulate_t<T>>> lse, Matrix<const accumulate_t<T>> d_o,
                       Matrix<accumulate_t<T>> d_q, std::span<const TttKeys<accumulate_t<T>>> d_steps, Arena& scratch) {
    using S = accumulate_t<T>;
    if (span.queries != span.keys || span.first != 0) {
      throw Error("attention backward: queries", std::to_string(span.queries) + " from " + std::to_string(span.first),
                  std::to_string(span.keys) + " from 0, as many as keys");
    }
    check(span, q, steps, o, lse);
    const index_t rows = span.sequences * span.queries;
    require_shape("TttAttention: d_o", d_o, rows, Heads * V);
    require_shape("TttAttention: d_q", d_q, rows, Heads * qk);
    require_steps("TttAttention: d_steps", d_steps, span);
    require_count("TttAttention: d_steps", static_cast<index_t>(d_steps.size()), static_cast<index_t>(steps.size()));
    Scope scope(scratch);
    const auto s = Scratch<S>::allocate(scratch, rows, static_cast<index_t>(steps.size()));
    parallel_for(cpu, span.sequences * Heads, [&](index_t i) {
      Backward<T, Visible>{span, q, steps, visible, o, lse, d_o, d_q, d_steps, s, i / Heads, i % Heads}.run();
    });
    sum_heads(cpu, rows, q, d_steps, s);
  }

 private:
  template <class T>
  static void require_steps(const char* argument, std::span<const TttKeys<T>> steps, const AttentionSpan& span) {
    if (steps.empty()) throw Error(argument, "none", "at least those of step 0");
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const index_t rows = span.sequences * (s == 0 ? span.keys : span.queries);
      require_shape(argument, steps[s].kv, rows, Heads * kv);
      require_shape(argument, steps[s].k_rope, rows, Rope);
    }
  }

  template <class T, class O, class L>
  static void check(const AttentionSpan& span, const Matrix<const T>& q, std::span<const TttKeys<const T>> steps,
                    const O& o, const L& lse) {
    const index_t rows = span.sequences * span.queries;
    require_shape("TttAttention: q", q, rows, Heads * qk);
    require_steps("TttAttention: steps", steps, span);
    require_shape("TttAttention: o", o, rows, Heads * V);
    require_shape("TttAttention: lse", lse, rows, Heads);
    if (span.first < 0 || span.first + span.queries > span.keys) {
      throw Error("TttAttention: span: queries", std::to_string(span.queries) + " from " + std::to_string(span.first),
                  "at most " + std::to_string(span.keys) + " keys");
    }
  }

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

  /// The score of a query row with the key of the same row of a later step, scaled.
  template <class T>
  static auto diagonal_score(const Matrix<const T>& q, const TttKeys<const T>& keys, index_t row, index_t head) {
    const T* x = q.row(row) + head * qk;
    return (Tile::dot(x, keys.kv.row(row) + head * kv, Nope) + Tile::dot(x + Nope, keys.k_rope.row(row), Rope)) *
           Tile::template scale<accumulate_t<T>>();
  }

  template <class T, class Visible>
  static void forward_tile(const AttentionSpan& span, const Matrix<const T>& q, std::span<const TttKeys<const T>> steps,
                           const Visible& visible, const Matrix<T>& o, const Matrix<LogSumExp<accumulate_t<T>>>& lse,
                           const Place& at) {
    const index_t row = at.sequence * span.queries + at.query, position = span.first + at.query;
    typename Tile::template Forward<T> f(Tile::block(q, row, at.count, at.head * qk, qk));
    for_runs(span, visible, at, [&](const Place& run) {
      for_key_tiles(span, visible, run, [&](index_t key, index_t m) {
        f.add(run.query - at.query, run.count, Tile::keys(steps[0], at.sequence * span.keys + key, m, at.head),
              [&](index_t i) { return [&, i](index_t j) { return visible(at.sequence, position + i, key + j); }; });
      });
    });
    for (std::size_t s = 1; s < steps.size(); ++s) {
      for (index_t i = 0; i < at.count; ++i) {
        f.add_one(i, diagonal_score(q, steps[s], row + i, at.head), steps[s].kv.row(row + i) + at.head * kv + Nope);
      }
    }
    f.finish(Tile::block(o, row, at.count, at.head * V, V), Tile::block(lse, row, at.count, at.head, 1));
  }

  /// f(run) for the queries of a place, those in a row that see the same first key together, at most query_tile at
  /// once.
  template <class Visible, class F>
  static void for_runs(const AttentionSpan& span, const Visible& visible, const Place& at, F&& f) {
    const auto begin = [&](index_t query) { return visible.begin(at.sequence, span.first + query); };
    const index_t end = at.query + at.count;
    for (index_t query = at.query; query < end;) {
      index_t count = 1;
      while (count < query_tile && query + count < end && begin(query + count) == begin(query)) ++count;
      f(Place{at.sequence, at.head, query, count});
      query += count;
    }
  }

  /// f(first key, keys) for the tiles that a run's last query, which sees furthest, reaches.
  template <class Visible, class F>
  static void for_key_tiles(const AttentionSpan& span, const Visible& visible, const Place& run, F&& f) {
    const index_t begin = visible.begin(run.sequence, span.first + run.query);
    const index_t end = std::min(span.keys, visible.end(run.sequence, span.first + run.query + run.count - 1));
    for (index_t key = begin; key < end; key += key_tile) f(key, std::min(key_tile, end - key));
  }

  template <class T, class Visible>
  struct Backward {
    using S = accumulate_t<T>;
    const AttentionSpan& span;
    const Matrix<const T>& q;
    std::span<const TttKeys<const T>> steps;
    const Visible& visible;
    const Matrix<const T>& o;
    const Matrix<const LogSumExp<S>>& lse;
    const Matrix<const S>& d_o;
    const Matrix<S>& d_q;
    std::span<const TttKeys<S>> d_steps;
    const Scratch<S>& scratch;
    index_t sequence, head;

    void run() {
      const index_t base = sequence * span.queries;
      Tile::zero(Tile::block(scratch.d_k_rope.matrix(), base, span.queries, head * Rope, Rope));
      Tile::zero(Tile::block(d_q, base, span.queries, head * qk, qk));
      for_runs(span, visible, {sequence, head, 0, span.queries}, [&](const Place& run) { queries(run); });
    }

    void queries(const Place& at) {
      const index_t row = sequence * span.queries + at.query, n = at.count;
      typename Tile::template Backward<T> tile(
          Tile::block(q, row, n, head * qk, qk), Tile::block(o, row, n, head * V, V), Tile::block(lse, row, n, head, 1),
          Tile::block(d_o, row, n, head * V, V), Tile::block(d_q, row, n, head * qk, qk));
      const AttentionKeys<S> d_keys{d_steps[0].kv, scratch.d_k_rope.matrix()};
      for_key_tiles(span, visible, at, [&](index_t key, index_t m) {
        const index_t k_row = sequence * span.keys + key, position = span.first + at.query;
        tile.add(0, n, Tile::keys(steps[0], k_row, m, head), Tile::keys(d_keys, k_row, m, head, head),
                 [&](index_t i) { return [&, i](index_t j) { return visible(sequence, position + i, key + j); }; });
      });
      for (std::size_t s = 1; s < steps.size(); ++s) {
        for (index_t i = 0; i < n; ++i) diagonal(s, row + i, tile.centre[static_cast<std::size_t>(i)]);
      }
    }

    void diagonal(std::size_t s, index_t r, S centre) {
      const index_t rows = span.sequences * span.queries;
      const LogSumExp<S>& sum = lse(r, head);
      const S weight = std::exp((diagonal_score(q, steps[s], r, head) - sum.top) - sum.log_mass);
      const S* d_out = d_o.row(r) + head * V;
      const T* key = steps[s].kv.row(r) + head * kv;
      const S d = weight * (Tile::dot(d_out, key + Nope, V) - centre) * Tile::template scale<S>();
      Tile::axpy(d, key, d_q.row(r) + head * qk, Nope);
      Tile::axpy(d, steps[s].k_rope.row(r), d_q.row(r) + head * qk + Nope, Rope);
      Tile::axpy(d, q.row(r) + head * qk, d_steps[s].kv.row(r) + head * kv, Nope);
      Tile::axpy(weight, d_out, d_steps[s].kv.row(r) + head * kv + Nope, V);
      scratch.d_diagonal((static_cast<index_t>(s) - 1) * rows + r, head) = d;
    }
  };

  template <class T, class S>
  static void sum_heads(const Cpu& cpu, index_t rows, const Matrix<const T>& q, std::span<const TttKeys<S>> d_steps,
                        const Scratch<S>& scratch) {
    cpu::for_pieces(cpu, rows, Heads * Rope, false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        Tile::sum_heads(scratch.d_k_rope.row(r), d_steps[0].k_rope.row(r));
        for (std::size_t s = 1; s < d_steps.size(); ++s) {
          const S* d = scratch.d_diagonal.row((static_cast<index_t>(s) - 1) * rows + r);
          for (index_t h = 0; h < Heads; ++h)
            Tile::axpy(d[h], q.row(r) + h * qk + Nope, d_steps[s].k_rope.row(r), Rope);
        }
      }
    });
  }
};

}  // namespace K3SPEC_NAMESPACE
