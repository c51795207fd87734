#pragma once
/// \file
/// Multi-head latent attention in the absorbed form, over a cache of latents that all heads share:
/// ```text
/// s[t, h, j] = scale · q[t, h] · kv[j],   o[t, h] = Σ_j softmax_j(s[t, h])_j · kv[j, : L]
/// ```
/// over the rows j of an interval that the query's token sees. q [tokens · heads, L + rope] with q_nope W_kb before
/// q_rope; kv [positions, L + rope] with the normed latent before k_rope; o [tokens · heads, L]. Keys are read in tiles
/// that begin at multiples of `attention_tile`, by a softmax that is carried along: what a query gets does not depend
/// on how many queries come with it.
/// defines: attention_tile, LatentAttention

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/interval.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Keys that are scored together.
inline constexpr index_t attention_tile = 64;

/// One sequence's queries. `sees(token)` is the Interval of kv's rows, not empty, that a token's queries see; neither
/// of its ends is less for a later token.
template <class S, class T, class Sees>
class LatentAttention {
 public:
  Matrix<const S> q;     ///< [tokens · heads, L + rope]
  Matrix<const T> kv;    ///< [positions, L + rope]
  Matrix<S> o;           ///< [tokens · heads, L]
  Matrix<S> scores;      ///< scratch [tokens · heads, attention_tile]
  Vector<S> top, total;  ///< scratch [tokens · heads]
  Sees sees;
  index_t heads;
  double scale;

  /// q, kv -> o, see above.
  /// \throws Error on shapes that do not fit q and kv, and where a token sees rows that kv has not
  void run() const {
    check();
    const index_t tokens = q.extent(0) / heads, end = sees(tokens - 1).end;
    index_t begin = 0, fresh = 0;
    for (index_t tile = sees(0).begin / attention_tile * attention_tile; tile < end; tile += attention_tile) {
      // Tokens before `begin` see nothing of the tile any more, those from `stop` on not yet.
      while (sees(begin).end <= tile) ++begin;
      index_t stop = std::max(begin, fresh);
      while (stop < tokens && sees(stop).begin < tile + attention_tile) ++stop;
      add_tile(tile, std::min(attention_tile, end - tile), begin, std::max(begin, fresh), stop);
      fresh = stop;
    }
    for (index_t r = 0; r < q.extent(0); ++r) scale_row(o.row(r), S(1) / total.data()[r]);
  }

 private:
  using P = Packet<S>;
  static constexpr S infinity = std::numeric_limits<S>::infinity();

  void check() const {
    const index_t rows = q.extent(0);
    if (heads < 1 || rows < heads || rows % heads != 0) {
      throw Error("LatentAttention: q: rows", std::to_string(rows), "whole tokens of " + std::to_string(heads));
    }
    require_count("LatentAttention: kv: columns", kv.extent(1), q.extent(1));
    require_rows("LatentAttention: o", o, rows);
    if (o.extent(1) > kv.extent(1)) {
      throw Error("LatentAttention: o: columns", std::to_string(o.extent(1)),
                  "at most " + std::to_string(kv.extent(1)));
    }
    require_shape("LatentAttention: scores", scores, rows, attention_tile);
    require_rows("LatentAttention: top", top, rows);
    require_rows("LatentAttention: total", total, rows);
    // Neither end is less for a later token.
    const index_t begin = sees(0).begin, end = sees(rows / heads - 1).end;
    if (begin >= 0 && end <= kv.extent(0)) return;
    throw Error("LatentAttention: rows seen", std::to_string(begin) + " to " + std::to_string(end),
                "0 to " + std::to_string(kv.extent(0)));
  }

  /// Keys [tile, tile + keys) for the queries of tokens [begin, stop), of which those from `fresh` on had none before.
  void add_tile(index_t tile, index_t keys, index_t begin, index_t fresh, index_t stop) const {
    if (begin == stop) return;
    const auto keys_here = kv.rows(tile, keys);
    gemm(Cpu{1}, q.rows(begin * heads, (stop - begin) * heads), Op::plain, keys_here, Op::transposed,
         scores.rows(begin * heads, (stop - begin) * heads).columns(0, keys));
    for (index_t t = begin; t < stop; ++t) {
      const Interval seen = Interval{tile, tile + keys} & sees(t);
      for (index_t r = t * heads; r < (t + 1) * heads; ++r) weigh(r, seen.begin - tile, seen.end - tile, t >= fresh);
    }
    add_values(tile, keys_here, begin, fresh, Into::accumulate);
    add_values(tile, keys_here, fresh, stop, Into::overwrite);
  }

  /// A weight of 0 does not keep out what is no number: beside keys that are not finite, each token meets none but
  /// those before its end.
  void add_values(index_t tile, const Matrix<const T>& keys_here, index_t begin, index_t stop, Into into) const {
    if (begin == stop) return;
    const index_t keys = keys_here.extent(0);
    const auto seen = [&](index_t t) { return std::min(sees(t).end - tile, keys); };
    if (is_finite(keys_here.rows(seen(begin), keys - seen(begin)))) {
      add_products(keys_here, begin, stop, into);
    } else {
      for (index_t t = begin; t < stop; ++t) add_products(keys_here.rows(0, seen(t)), t, t + 1, into);
    }
  }

  static bool is_finite(const Matrix<const T>& x) {
    for (index_t r = 0; r < x.extent(0); ++r) {
      for (index_t i = 0; i < x.extent(1); ++i) {
        if (!std::isfinite(static_cast<S>(x(r, i)))) return false;
      }
    }
    return true;
  }

  void add_products(const Matrix<const T>& keys_here, index_t begin, index_t stop, Into into) const {
    const index_t row = begin * heads, rows = (stop - begin) * heads;
    gemm(Cpu{1}, Matrix<const S>(scores.rows(row, rows).columns(0, keys_here.extent(0))), Op::plain,
         keys_here.columns(0, o.extent(1)), Op::plain, o.rows(row, rows), into);
  }

  /// Turns row r's scores into weights, relative to the largest score so far, and brings what there is of o and total
  /// to that scale. Keys outside [begin, end) get 0.
  void weigh(index_t r, index_t begin, index_t end, bool is_fresh) const {
    S* s = scores.row(r);
    const S factor = static_cast<S>(scale), before = is_fresh ? -infinity : top.data()[r];
    for (index_t j = 0; j < begin; ++j) s[j] = -infinity;
    for (index_t j = end; j < attention_tile; ++j) s[j] = -infinity;
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
    carry(r, is_fresh, std::exp(before - now), sum(sum_here));
    top.data()[r] = now;
  }

  void carry(index_t r, bool is_fresh, S factor, S sum_here) const {
    S& all = total.data()[r];
    all = is_fresh ? sum_here : all * factor + sum_here;
    if (!is_fresh && factor != S(1)) scale_row(o.row(r), factor);
  }

  void scale_row(S* x, S factor) const {
    const index_t n = o.extent(1);
    index_t i = 0;
    for (; i + P::width <= n; i += P::width) (P::load(x + i) * P(factor)).store(x + i);
    for (; i < n; ++i) x[i] = x[i] * factor;
  }
};

}  // namespace K3SPEC_NAMESPACE
