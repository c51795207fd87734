#pragma once
/// \file
/// The attention of ops/latent_attention.hpp on the CPU: some tokens of a sequence together, all their heads in one
/// product with each tile of keys.
/// defines: cpu::LatentTokens, latent_attention_kernel

#include <algorithm>
#include <cmath>
#include <limits>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/lane_chains.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/running_softmax.hpp>
#include <k3spec/backend/latent_attention_problem.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// Queries of consecutive tokens of one sequence. `sees(token)` counts from the first of them.
template <class S, class T, class Sees>
class LatentTokens {
 public:
  Matrix<const S> q;
  Matrix<const T> kv;
  Matrix<S> o, scores;
  Vector<S> top, total;
  Sees sees;
  index_t heads;
  double scale;

  void run() const {
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
    for (index_t r = 0; r < q.extent(0); ++r) scale_row(o.row(r), S(1) / total(r));
  }

 private:
  using P = Packet<S>;
  static constexpr S infinity = std::numeric_limits<S>::infinity();

  /// Keys [tile, tile + keys) for the queries of tokens [begin, stop), of which those from `fresh` on had none before.
  void add_tile(index_t tile, index_t keys, index_t begin, index_t fresh, index_t stop) const {
    if (begin == stop) return;
    const auto keys_here = kv.rows(tile, keys);
    gemm<Op::plain, Op::transposed>(Cpu{1}, q.rows(begin * heads, (stop - begin) * heads), keys_here,
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

  /// 0 · x is 0 for finite numbers alone.
  static bool is_finite(const Matrix<const T>& x) {
    P zeros(S(0));
    for (index_t r = 0; r < x.extent(0); ++r) {
      for (index_t i = 0; i < x.extent(1); i += P::width)
        zeros = fma(detail::load_as<S>(x.row(r) + i, x.extent(1) - i), P(S(0)), zeros);
    }
    return sum(zeros) == S(0);
  }

  void add_products(const Matrix<const T>& keys_here, index_t begin, index_t stop, Into into) const {
    const index_t row = begin * heads, rows = (stop - begin) * heads;
    gemm<Op::plain, Op::plain>(Cpu{1}, Matrix<const S>(scores.rows(row, rows).columns(0, keys_here.extent(0))),
                               keys_here.columns(0, o.extent(1)), o.rows(row, rows), into);
  }

  /// Turns row r's scores into weights, relative to the largest score so far, and brings what there is of o and total
  /// to that scale. Keys outside [begin, end) get 0; those behind the last packets that see a key are not looked at.
  void weigh(index_t r, index_t begin, index_t end, bool is_fresh) const {
    S* s = scores.row(r);
    const index_t looked_at = std::min(attention_tile, ceil_div(end, lane_chains<S>) * lane_chains<S>);
    fill(s, 0, begin, -infinity);
    fill(s, end, looked_at, -infinity);
    fill(s, looked_at, attention_tile, 0);
    for (index_t j = 0; j < looked_at; j += P::width) (P::load(s + j) * P(static_cast<S>(scale))).store(s + j);
    RunningSoftmax<S> row;
    if (!is_fresh) row = {top(r), total(r)};
    const S factor = row.add(s, looked_at);
    if (!is_fresh && factor != S(1)) scale_row(o.row(r), factor);
    top(r) = row.top, total(r) = row.total;
  }

  /// Elements [begin, end) of a row: a packet at a time, as loops over single ones would be mispredicted at each end.
  static void fill(S* s, index_t begin, index_t end, S value) {
    for (index_t j = begin; j < end; j += P::width) P(value).store_first(s + j, std::min(P::width, end - j));
  }

  void scale_row(S* x, S factor) const {
    const index_t n = o.extent(1);
    index_t i = 0;
    for (; i + P::width <= n; i += P::width) (P::load(x + i) * P(factor)).store(x + i);
    for (; i < n; ++i) x[i] = x[i] * factor;
  }
};

/// Tokens that are taken together.
inline constexpr index_t latent_height = 16;

/// Some tokens of a sequence, from token t on.
template <Element T, class Sees>
void attend(const LatentAttention<T, Sees>& x, const LatentSequence<T, Sees>& sequence, index_t t) {
  const index_t count = std::min(latent_height, sequence.tokens - t);
  const auto part = [&](const auto& v) { return v.rows((sequence.row + t) * x.heads, count * x.heads); };
  const auto sees = [&](index_t token) { return sequence.sees(t + token); };
  LatentTokens<accumulate_t<T>, T, decltype(sees)>{
      part(x.q), sequence.cache, part(x.o), part(x.scores), part(x.top), part(x.total), sees, x.heads, x.scale}
      .run();
}

}  // namespace cpu

/// See ops/latent_attention.hpp, which has compared the shapes.
template <Element T, class Sees>
void latent_attention_kernel(const Cpu& device, const LatentAttention<T, Sees>& x) {
  const auto blocks = [&](index_t b) { return (x.sequences[b].tokens + cpu::latent_height - 1) / cpu::latent_height; };
  index_t all = 0, seen = 0;
  for (index_t b = 0; b < x.count; ++b) {
    const auto& s = x.sequences[b];
    if (s.tokens == 0) continue;
    all += blocks(b), seen += s.tokens * (s.sees(0).size() + s.sees(s.tokens - 1).size()) / 2;
  }
  parallel_for(cpu::for_work(device, seen * x.heads * x.q.extent(1) * 2), all, [&](index_t i) {
    index_t b = 0;
    while (i >= blocks(b)) i -= blocks(b++);
    cpu::attend(x, x.sequences[b], i * cpu::latent_height);
  });
}

}  // namespace K3SPEC_NAMESPACE
