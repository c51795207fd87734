#pragma once
/// \file
/// Causal multi-head latent attention in the absorbed form, over a cache of latents that all heads share:
///     s[t, h, j] = scale · q[t, h] · kv[j],   o[t, h] = Σ_{j ≤ t} softmax_j(s[t, h])_j · kv[j, : L]
/// q [tokens · heads, L + rope] with q_nope W_kb before q_rope; kv [positions, L + rope] with the normed latent before
/// k_rope; o [tokens · heads, L]. Keys are read in tiles that begin at multiples of `attention_tile`, by a softmax that
/// is carried along: what a query gets does not depend on how many queries come with it.
/// defines: attention_tile, LatentAttention

#include <algorithm>
#include <cmath>
#include <limits>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/packet.hpp>

namespace k3spec {

/// Keys that are scored together.
inline constexpr index_t attention_tile = 64;

/// One sequence's queries at positions first, first + 1, …
template <class S, class T>
class LatentAttention {
 public:
  Matrix<const S> q;     ///< [tokens · heads, L + rope]
  Matrix<const T> kv;    ///< [positions ≥ first + tokens, L + rope]
  Matrix<S> o;           ///< [tokens · heads, L]
  Matrix<S> scores;      ///< scratch [tokens · heads, attention_tile]
  Vector<S> top, total;  ///< scratch [tokens · heads]
  index_t first, heads;
  double scale;

  void run() const {
    const index_t tokens = q.extent(0) / heads;
    for (index_t tile = 0; tile < first + tokens; tile += attention_tile) {
      // Queries before the tile see nothing of it.
      const index_t t = std::max<index_t>(0, tile - first);
      add_tile(tile, std::min(attention_tile, first + tokens - tile), t * heads, (tokens - t) * heads);
    }
    for (index_t r = 0; r < q.extent(0); ++r) scale_row(o.row(r), S(1) / total.data()[r]);
  }

 private:
  using P = Packet<S>;
  static constexpr S infinity = std::numeric_limits<S>::infinity();

  /// Keys [tile, tile + keys) for queries [row, row + rows).
  void add_tile(index_t tile, index_t keys, index_t row, index_t rows) const {
    const auto keys_here = kv.rows(tile, keys);
    const auto scores_here = scores.rows(row, rows).columns(0, keys);
    gemm(Cpu{1}, q.rows(row, rows), Op::plain, keys_here, Op::transposed, scores_here);
    for (index_t r = row; r < row + rows; ++r) weigh(r, tile, std::min(keys, first + r / heads - tile + 1));
    gemm(Cpu{1}, Matrix<const S>(scores_here), Op::plain, keys_here.columns(0, o.extent(1)), Op::plain,
         o.rows(row, rows), tile == 0 ? Into::overwrite : Into::accumulate);
  }

  /// Turns row r's scores into weights, relative to the largest score so far, and brings what there is of o and total
  /// to that scale. Keys from `visible` on get 0.
  void weigh(index_t r, index_t tile, index_t visible) const {
    S* s = scores.row(r);
    const S factor = static_cast<S>(scale), before = tile == 0 ? -infinity : top.data()[r];
    for (index_t j = visible; j < attention_tile; ++j) s[j] = -infinity;
    P most(before), sum_here(S(0));
    for (index_t j = 0; j < attention_tile; j += P::width) {
      const P x = P::load(s + j) * P(factor);
      x.store(s + j);
      most = max(most, x);
    }
    const S now = maximum(most);
    for (index_t j = 0; j < attention_tile; j += P::width) {
      const P x = exp(P::load(s + j) - P(now));
      x.store(s + j);
      sum_here = sum_here + x;
    }
    carry(r, tile, std::exp(before - now), sum(sum_here));
    top.data()[r] = now;
  }

  void carry(index_t r, index_t tile, S factor, S sum_here) const {
    S& all = total.data()[r];
    all = tile == 0 ? sum_here : all * factor + sum_here;
    if (tile != 0 && factor != S(1)) scale_row(o.row(r), factor);
  }

  void scale_row(S* x, S factor) const {
    const index_t n = o.extent(1);
    index_t i = 0;
    for (; i + P::width <= n; i += P::width) (P::load(x + i) * P(factor)).store(x + i);
    for (; i < n; ++i) x[i] = x[i] * factor;
  }
};

}  // namespace k3spec
