#pragma once
/// \file
/// Attention of a block draft (DFlash, DSpark) over [context ‖ noise]. Queries are the noise rows; each sees an
/// interval of its sequence's context and rows of its own block's noise, as `visible` says (ops/block_visibility.hpp);
/// one softmax over both. Scores are q·k / sqrt(nope + rope). A query that sees nothing gives 0.
/// ```text
/// q   [noise rows, heads·(nope+rope)]             heads of [nope ‖ rope]
/// kv  [context or noise rows, heads·(nope+v)]     heads of [k_nope ‖ v]
/// k_rope [context or noise rows, rope]            shared by all heads
/// o   [noise rows, heads·v],  lse [noise rows, heads]  log of the softmax denominator (LogSumExp)
/// ```
/// Blocks are taken together as far as they fill a tile of queries. A tile of keys, which begins at a multiple of
/// key_tile, is scored once for neighbouring blocks that reach all of it; a block that reaches some of it is scored
/// with that part alone; all others are not computed. So the time goes with the visible pairs, and a block's bits
/// depend neither on other blocks nor on context that it does not reach, not even on a NaN in it.
///
/// Saved: q, kv, k_rope, o, lse.
/// defines: BlockAttention

#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/attention_tile.hpp>
#include <k3spec/ops/block_visibility.hpp>

namespace K3SPEC_NAMESPACE {

/// Attention of the blocks of a draft, forward and backward.
template <index_t Heads, index_t Nope, index_t Rope, index_t V>
struct BlockAttention {
  using Tile = AttentionTile<Heads, Nope, Rope, V>;
  static constexpr index_t qk = Tile::qk, query_tile = Tile::query_tile, key_tile = Tile::key_tile;

  /// Attention of every slot over its context and its block.
  /// \throws Error for an anchor outside the context, and on shapes that do not fit the span
  template <class T, class Visible>
  static void forward(const Cpu& cpu, const BlockSpan& span, Matrix<const T> q, const AttentionKeys<const T>& context,
                      const AttentionKeys<const T>& noise, const Visible& visible, Matrix<T> o,
                      Matrix<LogSumExp<accumulate_t<T>>> lse) {
    visible.check(span);
    const index_t rows = span.noise_rows();
    require_shape("BlockAttention: q", q, rows, Heads * qk);
    require_keys("BlockAttention: context", context, span.context_rows());
    require_keys("BlockAttention: noise", noise, rows);
    require_shape("BlockAttention: o", o, rows, Heads * V);
    require_shape("BlockAttention: lse", lse, rows, Heads);
    const index_t tiles = tiles_of(span);
    parallel_for(threads_for(cpu, span), span.sequences * Heads * tiles, [&](index_t i) {
      const Place at = place(span, i / tiles / Heads, i / tiles % Heads, i % tiles);
      const index_t row = first_row(span, at), n = at.blocks * at.rows;
      typename Tile::template Forward<T> tile(Tile::block(q, row, n, at.head * qk, qk));
      for_keys(span, visible, at, [&](const Part& p, const auto& sees) {
        tile.add(p.query, p.queries, Tile::keys(p.of_context ? context : noise, p.key, p.keys, at.head), sees);
      });
      tile.finish(Tile::block(o, row, n, at.head * V, V), Tile::block(lse, row, n, at.head, 1));
    });
  }

  /// Scratch of backward: the gradients of the shared rope slices, per head.
  template <class S>
  struct Scratch {
    Rows<S, Heads * Rope> context, noise;

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t context_rows, index_t noise_rows) {
      Scratch s;
      take_rows(a, context_rows, s.context), take_rows(a, noise_rows, s.noise);
      return s;
    }
  };

  template <class T>
  static constexpr std::size_t scratch_bytes(index_t context_rows, index_t noise_rows) {
    return plan_bytes([&](ArenaPlan& a) { Scratch<accumulate_t<T>>::allocate(a, context_rows, noise_rows); });
  }

  /// d_q, d_context and d_noise are overwritten. A key's gradient sums over blocks in their order.
  /// \throws Error as forward does
  template <class T, class Visible>
  static void backward(const Cpu& cpu, const BlockSpan& span, Matrix<const T> q, const AttentionKeys<const T>& context,
                       const AttentionKeys<const T>& noise, const Visible& visible, Matrix<const T> o,
                       Matrix<const LogSumExp<accumulate_t<T>>> lse, Matrix<const accumulate_t<T>> d_o,
                       Matrix<accumulate_t<T>> d_q, const AttentionKeys<accumulate_t<T>>& d_context,
                       const AttentionKeys<accumulate_t<T>>& d_noise, Arena& scratch) {
    using S = accumulate_t<T>;
    visible.check(span);
    const index_t rows = span.noise_rows();
    require_shape("BlockAttention: q", q, rows, Heads * qk);
    require_keys("BlockAttention: context", context, span.context_rows());
    require_keys("BlockAttention: noise", noise, rows);
    require_shape("BlockAttention: o", o, rows, Heads * V);
    require_shape("BlockAttention: lse", lse, rows, Heads);
    require_shape("BlockAttention: d_o", d_o, rows, Heads * V);
    require_shape("BlockAttention: d_q", d_q, rows, Heads * qk);
    require_keys("BlockAttention: d_context", d_context, span.context_rows());
    require_keys("BlockAttention: d_noise", d_noise, rows);
    Scope scope(scratch);
    const auto s = Scratch<S>::allocate(scratch, span.context_rows(), span.noise_rows());
    const AttentionKeys<S> d_of_context{d_context.kv, s.context.matrix()}, d_of_noise{d_noise.kv, s.noise.matrix()};
    // Blocks share keys: one thread has all of a head's.
    parallel_for(threads_for(cpu, span), span.sequences * Heads, [&](index_t i) {
      const index_t sequence = i / Heads, head = i % Heads;
      zero_keys(d_of_context, sequence * span.context, span.context, head);
      zero_keys(d_of_noise, sequence * span.blocks * span.block_size, span.blocks * span.block_size, head);
      for (index_t t = 0; t < tiles_of(span); ++t) {
        const Place at = place(span, sequence, head, t);
        const index_t row = first_row(span, at), n = at.blocks * at.rows;
        const auto d_queries = Tile::block(d_q, row, n, head * qk, qk);
        Tile::zero(d_queries);
        typename Tile::template Backward<T> tile(Tile::block(q, row, n, head * qk, qk),
                                                 Tile::block(o, row, n, head * V, V), Tile::block(lse, row, n, head, 1),
                                                 Tile::block(d_o, row, n, head * V, V), d_queries);
        for_keys(span, visible, at, [&](const Part& p, const auto& sees) {
          tile.add(p.query, p.queries, Tile::keys(p.of_context ? context : noise, p.key, p.keys, head),
                   Tile::keys(p.of_context ? d_of_context : d_of_noise, p.key, p.keys, head, head), sees);
        });
      }
    });
    sum_heads(cpu, s.context, d_context.k_rope);
    sum_heads(cpu, s.noise, d_noise.k_rope);
  }

 private:
  template <class T>
  static void require_keys(const char* argument, const AttentionKeys<T>& keys, index_t rows) {
    require_shape(argument, keys.kv, rows, Heads * Tile::kv);
    require_shape(argument, keys.k_rope, rows, Rope);
  }

  /// One head's tile of queries: rows [offset, offset + rows) of each of `blocks` blocks from `block` on. That is
  /// several whole blocks, or a part of a long one.
  struct Place {
    index_t sequence, head, block, blocks, offset, rows;
  };

  /// Queries of a tile, and the rows of keys they are scored with.
  struct Part {
    index_t query, queries;
    bool of_context;
    index_t key, keys;
  };

  static Cpu threads_for(const Cpu& cpu, const BlockSpan& span) {
    return span.noise_rows() * (span.context + span.block_size) * qk < 4096 ? Cpu{1} : cpu;
  }

  /// How many parts of at most `size` hold n.
  static index_t parts_of(index_t n, index_t size) { return (n + size - 1) / size; }

  static index_t tiles_of(const BlockSpan& span) {
    return span.block_size <= query_tile ? parts_of(span.blocks, query_tile / span.block_size)
                                         : span.blocks * parts_of(span.block_size, query_tile);
  }

  static Place place(const BlockSpan& span, index_t sequence, index_t head, index_t tile) {
    if (span.block_size <= query_tile) {
      const index_t most = query_tile / span.block_size, block = tile * most;
      return {sequence, head, block, std::min(most, span.blocks - block), 0, span.block_size};
    }
    const index_t parts = parts_of(span.block_size, query_tile), offset = tile % parts * query_tile;
    return {sequence, head, tile / parts, 1, offset, std::min(query_tile, span.block_size - offset)};
  }

  static index_t first_row(const BlockSpan& span, const Place& at) {
    return (at.sequence * span.blocks + at.block) * span.block_size + at.offset;
  }

  /// f(part, sees) for all that a tile of queries sees: context in ascending order, then noise.
  template <class Visible, class F>
  static void for_keys(const BlockSpan& span, const Visible& visible, const Place& at, F&& f) {
    Interval all{span.context, 0};
    for (index_t b = at.block; b < at.block + at.blocks; ++b) {
      const Interval reach = visible.reach(span, at.sequence, b);
      if (reach.size() > 0) all = {std::min(all.begin, reach.begin), std::max(all.end, reach.end)};
    }
    for (index_t key = all.begin / key_tile * key_tile; key < all.end; key += key_tile) {
      context_tile(span, visible, at, {key, std::min(key + key_tile, span.context)}, f);
    }
    for (index_t b = 0; b < at.blocks; ++b) own_noise(span, visible, at, b, f);
  }

  template <class Visible, class F>
  static void context_tile(const BlockSpan& span, const Visible& visible, const Place& at, const Interval& tile, F& f) {
    const auto reach = [&](index_t b) { return visible.reach(span, at.sequence, at.block + b); };
    for (index_t b = 0; b < at.blocks;) {
      index_t count = 0;
      while (b + count < at.blocks && reach(b + count).contains(tile)) ++count;
      const Interval seen = tile & reach(b);
      count = std::max<index_t>(1, count);
      if (seen.size() > 0) {
        const Part part{b * at.rows, count * at.rows, true, at.sequence * span.context + seen.begin, seen.size()};
        f(part, [&](index_t i) {
          const Interval row = visible.context(span, at.sequence, at.block + i / at.rows, at.offset + i % at.rows);
          return [begin = row.begin - seen.begin, end = row.end - seen.begin](index_t j) {
            return bool((begin <= j) & (j < end));
          };
        });
      }
      b += count;
    }
  }

  template <class Visible, class F>
  static void own_noise(const BlockSpan& span, const Visible& visible, const Place& at, index_t b, F& f) {
    const index_t first = (at.sequence * span.blocks + at.block + b) * span.block_size;
    const index_t seen = visible.noise(span, at.offset + at.rows - 1);
    for (index_t key = 0; key < seen; key += key_tile) {
      const Part part{b * at.rows, at.rows, false, first + key, std::min(key_tile, seen - key)};
      f(part, [&](index_t i) {
        const index_t end = visible.noise(span, at.offset + i % at.rows) - key;
        return [end](index_t j) { return j < end; };
      });
    }
  }

  template <class S>
  static void zero_keys(const AttentionKeys<S>& all, index_t row, index_t count, index_t head) {
    if (count == 0) return;
    const auto of_head = Tile::keys(all, row, count, head, head);
    Tile::zero(of_head.nope), Tile::zero(of_head.rope), Tile::zero(of_head.v);
  }

  template <class S>
  static void sum_heads(const Cpu& cpu, const Rows<S, Heads * Rope>& per_head, const Matrix<S>& d_k_rope) {
    cpu::for_pieces(cpu, per_head.extent(0), Heads * Rope, false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        std::fill_n(d_k_rope.row(r), Rope, S(0));
        Tile::sum_heads(per_head.row(r), d_k_rope.row(r));
      }
    });
  }
};

}  // namespace K3SPEC_NAMESPACE
