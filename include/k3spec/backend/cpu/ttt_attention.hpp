#pragma once
/// \file
/// Attention over the steps of test-time training on the CPU, in tiles: a thread has a tile of one head's queries, and
/// in backward all of a head's, whose keys' gradients it sums. Nothing is checked: see ops/ttt_attention.hpp.
/// defines: ttt_forward_kernel, ttt_backward_kernel, cpu::TttTiles, cpu::TttBackward

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <k3spec/backend/cpu/attention_tile.hpp>
#include <k3spec/backend/ttt_problem.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// The tiles of a problem.
template <class Heads, class T, class Visible>
struct TttTiles {
  using S = accumulate_t<T>;
  using Tile = AttentionTile<Heads>;
  static constexpr index_t query_tile = Tile::query_tile, key_tile = Tile::key_tile;
  const TttProblem<Heads, T, Visible>& problem;

  /// One head's queries [query, query + count) of a sequence.
  struct Place {
    index_t sequence, head, query, count;
  };

  /// f(place) for every tile of queries.
  template <class F>
  void for_tiles(const Cpu& cpu, F&& f) const {
    const AttentionSpan& span = problem.span;
    const index_t tiles = ceil_div(span.queries, query_tile);
    const Cpu device = span.queries * span.keys * Heads::qk < 4096 ? Cpu{1} : cpu;
    parallel_for(device, span.sequences * Heads::count * tiles, [&](index_t i) {
      const index_t query = i % tiles * query_tile;
      f(Place{i / tiles / Heads::count, i / tiles % Heads::count, query, std::min(query_tile, span.queries - query)});
    });
  }

  /// f(run) for the queries of a place, those in a row that see the same first key together, at most query_tile at
  /// once.
  template <class F>
  void for_runs(const Place& at, F&& f) const {
    const auto begin = [&](index_t query) { return problem.visible.begin(at.sequence, problem.span.first + query); };
    const index_t end = at.query + at.count;
    for (index_t query = at.query; query < end;) {
      index_t count = 1;
      while (count < query_tile && query + count < end && begin(query + count) == begin(query)) ++count;
      f(Place{at.sequence, at.head, query, count});
      query += count;
    }
  }

  /// f(first key, keys) for the tiles that a run's last query, which sees furthest, reaches.
  template <class F>
  void for_key_tiles(const Place& run, F&& f) const {
    const AttentionSpan& span = problem.span;
    const index_t begin = problem.visible.begin(run.sequence, span.first + run.query);
    const index_t last = span.first + run.query + run.count - 1;
    const index_t end = std::min(span.keys, problem.visible.end(run.sequence, last));
    for (index_t key = begin; key < end; key += key_tile) f(key, std::min(key_tile, end - key));
  }

  /// A visibility's row, which counts keys from `first`.
  template <class Row>
  struct KeysFrom {
    Row row;
    index_t first;
    bool operator()(index_t j) const { return row(first + j); }
    void mark(index_t n, std::uint8_t* seen) const { row.mark(first, n, seen); }
  };

  /// Which key, counted from `key`, a query, counted from `query`, sees.
  auto sees(index_t sequence, index_t query, index_t key) const {
    const index_t position = problem.span.first + query;
    return [&visible = problem.visible, sequence, position, key](index_t i) {
      if constexpr (requires { visible.row(sequence, position + i); }) {
        const auto row = visible.row(sequence, position + i);
        return KeysFrom<std::remove_const_t<decltype(row)>>{row, key};
      } else {
        return [&visible, sequence, position, key, i](index_t j) { return visible(sequence, position + i, key + j); };
      }
    };
  }

  /// The score of a query row with the key of the same row of a later step, scaled.
  S diagonal_score(index_t step, index_t row, index_t head) const {
    const AttentionKeys<const T>& keys = problem.steps[step];
    const T* x = problem.q.row(row) + head * Heads::qk;
    return (Tile::dot(x, keys.kv.row(row) + head * Heads::kv, Heads::nope) +
            Tile::dot(x + Heads::nope, keys.k_rope.row(row), Heads::rope)) *
           problem.scale;
  }

  void forward(const AttentionResult<T>& result, const Place& at) const {
    const index_t row = at.sequence * problem.span.queries + at.query;
    typename Tile::template Forward<T> f(Tile::template block<Heads::qk>(problem.q, row, at.count, at.head * Heads::qk),
                                         problem.scale);
    for_runs(at, [&](const Place& run) {
      for_key_tiles(run, [&](index_t key, index_t m) {
        f.add(run.query - at.query, run.count,
              Tile::keys(problem.steps[0], at.sequence * problem.span.keys + key, m, at.head),
              sees(at.sequence, at.query, key));
      });
    });
    for (index_t s = 1; s < problem.steps.count; ++s) {
      for (index_t i = 0; i < at.count; ++i) {
        const T* v = problem.steps[s].kv.row(row + i) + at.head * Heads::kv + Heads::nope;
        f.add_one(i, diagonal_score(s, row + i, at.head), v);
      }
    }
    f.finish(Tile::template block<Heads::v>(result.o, row, at.count, at.head * Heads::v),
             Tile::template block<1>(result.lse, row, at.count, at.head));
  }
};

/// The gradients of a problem, all queries of one head at a time.
template <class Heads, class T, class Visible>
struct TttBackward {
  using Tiles = TttTiles<Heads, T, Visible>;
  using S = typename Tiles::S;
  using Tile = typename Tiles::Tile;
  using Place = typename Tiles::Place;
  Tiles tiles;
  const TttProblem<Heads, T, Visible>& problem;
  const AttentionResult<const T>& result;
  const Matrix<const S>& d_o;
  const TttGradients<S>& d;
  const TttScratch<Heads, S>& scratch;
  bool of_queries = d.into_q != Into::nothing, of_keys = d.into_steps != Into::nothing;

  void run(index_t sequence, index_t head) const {
    const index_t row = sequence * problem.span.queries, n = problem.span.queries;
    if (d.into_q == Into::overwrite) Tile::zero(Tile::template block<Heads::qk>(d.d_q, row, n, head * Heads::qk));
    if (of_keys) zero_keys(row, n, head);
    tiles.for_runs({sequence, head, 0, n}, [&](const Place& run) { queries(run); });
  }

  /// d_steps' shared slices: those of step 0 from every head's, those of later ones from the diagonal.
  void sum_heads(const Cpu& cpu) const {
    const index_t rows = problem.span.rows();
    for_pieces(cpu, rows, Heads::count * Heads::rope, false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) sum_heads(r);
    });
  }

 private:
  void zero_keys(index_t row, index_t n, index_t head) const {
    Tile::zero(Tile::template block<Heads::rope>(scratch.d_k_rope.matrix(), row, n, head * Heads::rope));
    if (d.into_steps != Into::overwrite) return;
    for (index_t s = 0; s < d.d_steps.count; ++s) {
      Tile::zero(Tile::template block<Heads::kv>(d.d_steps[s].kv, row, n, head * Heads::kv));
    }
  }

  void queries(const Place& at) const {
    const index_t row = at.sequence * problem.span.queries + at.query, n = at.count, head = at.head;
    typename Tile::template Backward<T> tile(
        Tile::template block<Heads::qk>(problem.q, row, n, head * Heads::qk),
        Tile::template block<Heads::v>(result.o, row, n, head * Heads::v),
        Tile::template block<1>(result.lse, row, n, head), Tile::template block<Heads::v>(d_o, row, n, head * Heads::v),
        of_queries ? Tile::template block<Heads::qk>(d.d_q, row, n, head * Heads::qk) : Rows<S, Heads::qk>(),
        problem.scale);
    const AttentionKeys<S> d_keys{d.d_steps[0].kv, scratch.d_k_rope.matrix()};
    tiles.for_key_tiles(at, [&](index_t key, index_t m) {
      const index_t k_row = at.sequence * problem.span.keys + key;
      tile.add(0, n, Tile::keys(problem.steps[0], k_row, m, head),
               of_keys ? Tile::keys(d_keys, k_row, m, head, head) : typename Tile::template Keys<S>(),
               tiles.sees(at.sequence, at.query, key));
    });
    for (index_t s = 1; s < problem.steps.count; ++s) {
      for (index_t i = 0; i < n; ++i) diagonal(s, row + i, head, tile.delta[static_cast<std::size_t>(i)]);
    }
  }

  /// A query row and the key of the same row of a later step.
  void diagonal(index_t step, index_t r, index_t head, S delta) const {
    const LogSumExp<S>& sum = result.lse(r, head);
    const S weight = std::exp((tiles.diagonal_score(step, r, head) - sum.top) - sum.log_mass);
    const S* d_out = d_o.row(r) + head * Heads::v;
    const T *q = problem.q.row(r) + head * Heads::qk, *key = problem.steps[step].kv.row(r) + head * Heads::kv;
    const S d_s = weight * (Tile::dot(d_out, key + Heads::nope, Heads::v) - delta) * problem.scale;
    if (of_queries) {
      S* d_q = d.d_q.row(r) + head * Heads::qk;
      Tile::axpy(d_s, key, d_q, Heads::nope);
      Tile::axpy(d_s, problem.steps[step].k_rope.row(r), d_q + Heads::nope, Heads::rope);
    }
    if (!of_keys) return;
    S* d_kv = d.d_steps[step].kv.row(r) + head * Heads::kv;
    Tile::axpy(d_s, q, d_kv, Heads::nope);
    Tile::axpy(weight, d_out, d_kv + Heads::nope, Heads::v);
    scratch.d_diagonal((step - 1) * problem.span.rows() + r, head) = d_s;
  }

  void sum_heads(index_t r) const {
    for (index_t s = 0; d.into_steps == Into::overwrite && s < d.d_steps.count; ++s) {
      std::fill_n(d.d_steps[s].k_rope.row(r), Heads::rope, S(0));
    }
    Tile::sum_heads(scratch.d_k_rope.row(r), d.d_steps[0].k_rope.row(r));
    for (index_t s = 1; s < d.d_steps.count; ++s) {
      const S* d_s = scratch.d_diagonal.row((s - 1) * problem.span.rows() + r);
      for (index_t h = 0; h < Heads::count; ++h) {
        Tile::axpy(d_s[h], problem.q.row(r) + h * Heads::qk + Heads::nope, d.d_steps[s].k_rope.row(r), Heads::rope);
      }
    }
  }
};

}  // namespace cpu

/// Forward, without checks.
template <class Heads, class T, class Visible>
void ttt_forward_kernel(const Cpu& cpu, const TttProblem<Heads, T, Visible>& problem,
                        const AttentionResult<T>& result) {
  const cpu::TttTiles<Heads, T, Visible> tiles{problem};
  tiles.for_tiles(cpu, [&](const auto& at) { tiles.forward(result, at); });
}

/// Backward, without checks.
template <class Heads, class T, class Visible>
void ttt_backward_kernel(const Cpu& cpu, const TttProblem<Heads, T, Visible>& problem,
                         const AttentionResult<const T>& result, const Matrix<const accumulate_t<T>>& d_o,
                         const TttGradients<accumulate_t<T>>& d, const TttScratch<Heads, accumulate_t<T>>& scratch) {
  if (d.into_q == Into::nothing && d.into_steps == Into::nothing) return;
  const cpu::TttBackward<Heads, T, Visible> backward{{problem}, problem, result, d_o, d, scratch};
  parallel_for(cpu, problem.span.sequences * Heads::count,
               [&](index_t i) { backward.run(i / Heads::count, i % Heads::count); });
  if (d.into_steps != Into::nothing) backward.sum_heads(cpu);
}

}  // namespace K3SPEC_NAMESPACE
