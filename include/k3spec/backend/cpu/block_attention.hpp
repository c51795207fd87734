#pragma once
/// \file
/// Attention of a block draft on the CPU, in tiles: a thread has a tile of one head's queries, and in backward all of a
/// head's, whose keys' gradients it sums. Shapes are not checked: see ops/block_attention.hpp.
/// Blocks are taken together as far as they fill a tile of queries. A tile of keys, which begins at a multiple of
/// key_tile, is scored once for neighbouring blocks that reach all of it; a block that reaches some of it is scored
/// with that part alone; all others are not computed.
/// defines: require_anchors, block_forward_kernel, block_backward_kernel, cpu::BlockTiles, cpu::BlockBackward

#include <string>

#include <k3spec/backend/block_problem.hpp>
#include <k3spec/backend/cpu/attention_tile.hpp>
#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// The tiles of a problem.
template <class Heads, class T, class Visible>
struct BlockTiles {
  using Tile = AttentionTile<Heads>;
  static constexpr index_t query_tile = Tile::query_tile, key_tile = Tile::key_tile;
  const BlockProblem<Heads, T, Visible>& problem;

  /// One head's tile of queries: rows [offset, offset + rows) of each of `blocks` blocks from `block` on. That is
  /// several whole blocks, or a part of a long one.
  struct Place {
    index_t sequence, head, block, blocks, offset, rows;

    index_t queries() const { return blocks * rows; }
  };

  /// Queries of a tile, and the rows of keys they are scored with.
  struct Part {
    index_t query, queries;
    bool of_context;
    index_t key, keys;
  };

  Cpu threads(const Cpu& cpu) const {
    const BlockSpan& span = problem.span;
    return span.noise_rows() * (span.context + span.block_size) * Heads::qk < 4096 ? Cpu{1} : cpu;
  }

  /// How many parts of at most `size` hold n.
  static index_t parts_of(index_t n, index_t size) { return ceil_div(n, size); }

  /// Tiles of a head's queries.
  index_t count() const {
    const BlockSpan& span = problem.span;
    return span.block_size <= query_tile ? parts_of(span.blocks, query_tile / span.block_size)
                                         : span.blocks * parts_of(span.block_size, query_tile);
  }

  Place place(index_t sequence, index_t head, index_t tile) const {
    const BlockSpan& span = problem.span;
    if (span.block_size <= query_tile) {
      const index_t most = query_tile / span.block_size, block = tile * most;
      return {sequence, head, block, std::min(most, span.blocks - block), 0, span.block_size};
    }
    const index_t parts = parts_of(span.block_size, query_tile), offset = tile % parts * query_tile;
    return {sequence, head, tile / parts, 1, offset, std::min(query_tile, span.block_size - offset)};
  }

  index_t first_row(const Place& at) const {
    return (at.sequence * problem.span.blocks + at.block) * problem.span.block_size + at.offset;
  }

  /// The rows of a tile of queries, and those of a part's keys.
  template <index_t Width, class U>
  Rows<U, Width> rows(const Matrix<U>& m, const Place& at) const {
    return Tile::template block<Width>(m, first_row(at), at.queries(), at.head * Width);
  }
  auto keys(const Place& at, const Part& p) const {
    return Tile::keys(p.of_context ? problem.context : problem.noise, p.key, p.keys, at.head);
  }

  /// f(part, sees) for all that a tile of queries sees: context in ascending order, then noise.
  template <class F>
  void for_keys(const Place& at, F&& f) const {
    const BlockSpan& span = problem.span;
    Interval all{span.context, 0};
    for (index_t b = at.block; b < at.block + at.blocks; ++b) {
      const Interval reach = problem.visible.reach(span, at.sequence, b);
      if (reach.size() > 0) all = {std::min(all.begin, reach.begin), std::max(all.end, reach.end)};
    }
    for (index_t key = all.begin / key_tile * key_tile; key < all.end; key += key_tile) {
      context_tile(at, {key, std::min(key + key_tile, span.context)}, f);
    }
    for (index_t b = 0; b < at.blocks; ++b) own_noise(at, b, f);
  }

  void forward(const AttentionResult<T>& result, const Place& at) const {
    typename Tile::template Forward<T> tile(rows<Heads::qk>(problem.q, at), problem.scale);
    for_keys(at, [&](const Part& p, const auto& sees) { tile.add(p.query, p.queries, keys(at, p), sees); });
    tile.finish(rows<Heads::v>(result.o, at), rows<1>(result.lse, at));
  }

 private:
  template <class F>
  void context_tile(const Place& at, const Interval& tile, F& f) const {
    const BlockSpan& span = problem.span;
    const auto reach = [&](index_t b) { return problem.visible.reach(span, at.sequence, at.block + b); };
    for (index_t b = 0; b < at.blocks;) {
      index_t count = 0;
      while (b + count < at.blocks && reach(b + count).contains(tile)) ++count;
      const Interval seen = tile & reach(b);
      count = std::max<index_t>(1, count);
      if (seen.size() > 0) {
        const Part part{b * at.rows, count * at.rows, true, at.sequence * span.context + seen.begin, seen.size()};
        f(part, [&](index_t i) {
          const index_t block = at.block + i / at.rows, offset = at.offset + i % at.rows;
          const Interval row = problem.visible.context(span, at.sequence, block, offset);
          return [begin = row.begin - seen.begin, end = row.end - seen.begin](index_t j) {
            return bool((begin <= j) & (j < end));
          };
        });
      }
      b += count;
    }
  }

  template <class F>
  void own_noise(const Place& at, index_t b, F& f) const {
    const BlockSpan& span = problem.span;
    const index_t first = (at.sequence * span.blocks + at.block + b) * span.block_size;
    const index_t seen = problem.visible.noise(span, at.offset + at.rows - 1);
    for (index_t key = 0; key < seen; key += key_tile) {
      const Part part{b * at.rows, at.rows, false, first + key, std::min(key_tile, seen - key)};
      f(part, [&](index_t i) {
        const index_t end = problem.visible.noise(span, at.offset + i % at.rows) - key;
        return [end](index_t j) { return j < end; };
      });
    }
  }
};

/// The gradients of a problem, all queries of one head at a time: blocks share keys.
template <class Heads, class T, class Visible>
struct BlockBackward {
  using S = accumulate_t<T>;
  using Tiles = BlockTiles<Heads, T, Visible>;
  using Tile = typename Tiles::Tile;
  using Place = typename Tiles::Place;
  Tiles tiles;
  const AttentionResult<const T>& result;
  const Matrix<const S>& d_o;
  const BlockGradients<S>& d;
  const BlockScratch<Heads, S>& scratch;

  void run(index_t sequence, index_t head) const {
    const BlockSpan& span = tiles.problem.span;
    const index_t noise = span.blocks * span.block_size;
    zero_keys(d_context(), d.into_context, sequence * span.context, span.context, head);
    zero_keys(d_noise(), d.into_noise, sequence * noise, noise, head);
    for (index_t t = 0; t < tiles.count(); ++t) queries(tiles.place(sequence, head, t));
  }

  void sum_heads(const Cpu& cpu) const {
    sum_heads(cpu, scratch.context, d.d_context.k_rope, d.into_context);
    sum_heads(cpu, scratch.noise, d.d_noise.k_rope, d.into_noise);
  }

 private:
  AttentionKeys<S> d_context() const { return {d.d_context.kv, scratch.context.matrix()}; }
  AttentionKeys<S> d_noise() const { return {d.d_noise.kv, scratch.noise.matrix()}; }

  void queries(const Place& at) const {
    const auto& problem = tiles.problem;
    const auto d_queries = d.into_q == Into::nothing ? Rows<S, Heads::qk>() : tiles.template rows<Heads::qk>(d.d_q, at);
    if (d.into_q == Into::overwrite) Tile::zero(d_queries);
    typename Tile::template Backward<T> tile(
        tiles.template rows<Heads::qk>(problem.q, at), tiles.template rows<Heads::v>(result.o, at),
        tiles.template rows<1>(result.lse, at), tiles.template rows<Heads::v>(d_o, at), d_queries, problem.scale);
    tiles.for_keys(at, [&](const auto& p, const auto& sees) {
      const Into into = p.of_context ? d.into_context : d.into_noise;
      tile.add(p.query, p.queries, tiles.keys(at, p),
               into == Into::nothing
                   ? typename Tile::template Keys<S>()
                   : Tile::keys(p.of_context ? d_context() : d_noise(), p.key, p.keys, at.head, at.head),
               sees);
    });
  }

  static void zero_keys(const AttentionKeys<S>& all, Into into, index_t row, index_t count, index_t head) {
    if (count == 0 || into == Into::nothing) return;
    const auto of_head = Tile::keys(all, row, count, head, head);
    Tile::zero(of_head.rope);
    if (into == Into::overwrite) Tile::zero(of_head.nope), Tile::zero(of_head.v);
  }

  static void sum_heads(const Cpu& cpu, const Matrix<S>& per_head, const Matrix<S>& d_k_rope, Into into) {
    if (into == Into::nothing) return;
    for_pieces(cpu, per_head.extent(0), per_head.extent(1), false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        if (into == Into::overwrite) std::fill_n(d_k_rope.row(r), Heads::rope, S(0));
        Tile::sum_heads(per_head.row(r), d_k_rope.row(r));
      }
    });
  }
};

/// Refuses a number outside its range.
inline void require_within(const char* what, const std::string& block, index_t found, index_t most) {
  if (found < 0 || found > most) throw Error(what + block, std::to_string(found), "0 to " + std::to_string(most));
}

}  // namespace cpu

/// Refuses anchors that are no positions of the context.
/// \throws Error for an anchor outside the context; with documents it must be one of its positions, and its document
///         must not begin outside the context or behind it
inline void require_anchors(const Cpu&, const BlockVisibility& visible, const BlockSpan& span) {
  const index_t most = visible.document_starts == nullptr ? span.context : span.context - 1;
  for (index_t i = 0; i < span.sequences * span.blocks; ++i) {
    if (visible.keep != nullptr && visible.keep[i] == 0) continue;
    const index_t anchor = visible.anchors[i];
    const std::string block = " of block " + std::to_string(i);
    cpu::require_within("anchor", block, anchor, most);
    if (visible.document_starts == nullptr) continue;
    const index_t start = visible.document_starts[i / span.blocks * span.context + anchor];
    cpu::require_within("document start", block, start, anchor);
  }
}

/// Forward, without checks.
template <class Heads, class T, class Visible>
void block_forward_kernel(const Cpu& cpu, const BlockProblem<Heads, T, Visible>& problem,
                          const AttentionResult<T>& result) {
  const cpu::BlockTiles<Heads, T, Visible> tiles{problem};
  const index_t count = tiles.count();
  parallel_for(tiles.threads(cpu), problem.span.sequences * Heads::count * count, [&](index_t i) {
    tiles.forward(result, tiles.place(i / count / Heads::count, i / count % Heads::count, i % count));
  });
}

/// Backward, without checks. A key's gradient sums over blocks in their order.
template <class Heads, class T, class Visible>
void block_backward_kernel(const Cpu& cpu, const BlockProblem<Heads, T, Visible>& problem,
                           const AttentionResult<const T>& result, const Matrix<const accumulate_t<T>>& d_o,
                           const BlockGradients<accumulate_t<T>>& d,
                           const BlockScratch<Heads, accumulate_t<T>>& scratch) {
  const cpu::BlockBackward<Heads, T, Visible> backward{{problem}, result, d_o, d, scratch};
  parallel_for(backward.tiles.threads(cpu), problem.span.sequences * Heads::count,
               [&](index_t i) { backward.run(i / Heads::count, i % Heads::count); });
  backward.sum_heads(cpu);
}

}  // namespace K3SPEC_NAMESPACE
