#pragma once
/// \file
/// Attention of drafts in training, forward and backward, on any device: what comes out of it, for patterns of keys.
/// defines: test::attention::Narrow, test::attention::Wide, test::attention::Results, test::attention::Pattern,
///          test::attention::ttt, test::attention::Blocks, test::attention::blocks, test::attention::check_near,
///          test::attention::check_ttt, test::attention::check_blocks

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <k3spec/core/rng.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/ttt_attention.hpp>

#include <tests/cuda/device.hpp>

namespace k3spec::test::attention {

/// Odd widths, within a warp's and beyond it.
using Narrow = AttentionHeads<3, 5, 4, 7>;
using Wide = AttentionHeads<2, 35, 6, 37>;

template <class T>
std::vector<T> numbers(std::uint64_t seed, index_t count) {
  std::vector<T> all;
  for (index_t i = 0; i < count; ++i) {
    all.push_back(T(static_cast<accumulate_t<T>>(Philox(seed).normal(static_cast<std::uint64_t>(i)))));
  }
  return all;
}

/// Everything that comes out, as doubles: o, the sums, then the gradients.
using Results = std::vector<std::vector<double>>;

template <class T, class D>
struct Keys {
  test::Mirror<T, D> kv, k_rope;
  template <class Heads>
  Keys(std::uint64_t seed, index_t rows, Heads)
      : kv(numbers<T>(seed, rows * Heads::count * Heads::kv)), k_rope(numbers<T>(seed + 1, rows * Heads::rope)) {}
  template <class Heads>
  AttentionKeys<element_t<D, T>> view(Heads) {
    return {kv.matrix(Heads::count * Heads::kv), k_rope.matrix(Heads::rope)};
  }
};
template <class T>
std::vector<double> doubles(const std::vector<T>& x) {
  std::vector<double> all;
  for (const T& v : x) all.push_back(static_cast<double>(v));
  return all;
}
template <class S>
std::vector<double> doubles(const std::vector<LogSumExp<S>>& x) {
  std::vector<double> all;
  for (const auto& v : x) all.push_back(static_cast<double>(v.top) + static_cast<double>(v.log_mass));
  return all;
}

/// What a pattern of keys is made of.
struct Pattern {
  index_t sequences, length, steps = 1;
  std::vector<index_t> document_starts = {};
  std::vector<std::uint8_t> attention_mask = {};
  Into into_q = Into::overwrite, into_keys = Into::overwrite;
  std::vector<index_t> spoilt = {};  ///< rows of step 0 whose keys and values are NaN
};

template <class Heads, class T, class D>
Results ttt(const Pattern& x) {
  using S = accumulate_t<T>;
  using E = element_t<D, T>;
  using A = element_t<D, S>;
  const D& device = test::device<D>();
  const index_t rows = x.sequences * x.length;
  test::Mirror<T, D> q(numbers<T>(1, rows * Heads::count * Heads::qk)),
      o(numbers<T>(2, rows * Heads::count * Heads::v));
  test::Mirror<LogSumExp<S>, D> lse(std::vector<LogSumExp<S>>(static_cast<std::size_t>(rows * Heads::count)));
  test::Mirror<S, D> d_o(numbers<S>(3, rows * Heads::count * Heads::v)),
      d_q(numbers<S>(4, rows * Heads::count * Heads::qk));
  test::Mirror<index_t, D> starts(x.document_starts);
  test::Mirror<std::uint8_t, D> mask(x.attention_mask);
  std::vector<Keys<T, D>> keys;
  std::vector<Keys<S, D>> d_keys;
  TttProblem<Heads, E, CausalVisibility> problem{
      {x.sequences, x.length, x.length}, q.matrix(Heads::count * Heads::qk), {}, {}, S(0.4)};
  problem.visible.length = x.length;
  if (!x.attention_mask.empty()) problem.visible.attention_mask = bare(mask.vector().data());
  if (!x.document_starts.empty()) problem.visible.document_starts = bare(starts.vector().data());
  TttGradients<A> d{d_q.matrix(Heads::count * Heads::qk), {}, x.into_q, x.into_keys};
  for (index_t s = 0; s < x.steps; ++s) {
    keys.emplace_back(10 + 2 * static_cast<std::uint64_t>(s), rows, Heads{});
    d_keys.emplace_back(50 + 2 * static_cast<std::uint64_t>(s), rows, Heads{});
  }
  for (const index_t row : x.spoilt) {
    const auto spoil = [row](auto& mirror, index_t width) {
      auto all = mirror.get();
      std::fill_n(all.begin() + row * width, width, T(std::numeric_limits<S>::quiet_NaN()));
      mirror = std::remove_cvref_t<decltype(mirror)>(all);
    };
    spoil(keys[0].kv, Heads::count * Heads::kv), spoil(keys[0].k_rope, Heads::rope);
  }
  for (index_t s = 0; s < x.steps; ++s) {
    const auto step = static_cast<std::size_t>(s);
    const auto view = keys[step].view(Heads{});
    problem.steps.add({view.kv, view.k_rope}), d.d_steps.add(d_keys[step].view(Heads{}));
  }
  const AttentionResult<E> result{o.matrix(Heads::count * Heads::v), lse.matrix(Heads::count)};
  ttt_attention_forward(device, problem, result);
  arena_t<D> scratch(device, ttt_attention_scratch<Heads, E>(rows, x.steps));
  ttt_attention_backward(device, problem, result, Matrix<const A>(d_o.matrix(Heads::count * Heads::v)), d, scratch);
  Results all{doubles(o.get()), doubles(lse.get()), doubles(d_q.get())};
  for (auto& step : d_keys) all.push_back(doubles(step.kv.get())), all.push_back(doubles(step.k_rope.get()));
  return all;
}

struct Blocks {
  index_t sequences, context, size;
  std::vector<index_t> anchors;
  std::vector<std::uint8_t> keep = {};
  std::vector<index_t> document_starts = {};
  std::optional<index_t> window = {};
  bool causal = false;
  Into into_q = Into::overwrite, into_context = Into::overwrite, into_noise = Into::overwrite;
};

template <class Heads, class T, class D>
Results blocks(const Blocks& x) {
  using S = accumulate_t<T>;
  using E = element_t<D, T>;
  using A = element_t<D, S>;
  const D& device = test::device<D>();
  const BlockSpan span{x.sequences, x.context, std::ssize(x.anchors) / std::max<index_t>(1, x.sequences), x.size};
  const index_t rows = span.noise_rows();
  test::Mirror<T, D> q(numbers<T>(1, rows * Heads::count * Heads::qk)),
      o(numbers<T>(2, rows * Heads::count * Heads::v));
  test::Mirror<LogSumExp<S>, D> lse(std::vector<LogSumExp<S>>(static_cast<std::size_t>(rows * Heads::count)));
  test::Mirror<S, D> d_o(numbers<S>(3, rows * Heads::count * Heads::v)),
      d_q(numbers<S>(4, rows * Heads::count * Heads::qk));
  test::Mirror<index_t, D> anchors(x.anchors), starts(x.document_starts);
  test::Mirror<std::uint8_t, D> keep(x.keep);
  Keys<T, D> context(10, span.context_rows(), Heads{}), noise(20, rows, Heads{});
  Keys<S, D> d_context(50, span.context_rows(), Heads{}), d_noise(60, rows, Heads{});
  BlockVisibility visible{bare(anchors.vector().data()), nullptr, nullptr, x.window, x.causal};
  if (!x.keep.empty()) visible.keep = bare(keep.vector().data());
  if (!x.document_starts.empty()) visible.document_starts = bare(starts.vector().data());
  const auto as_const = [](const auto& keys) { return AttentionKeys<const E>{keys.kv, keys.k_rope}; };
  const BlockProblem<Heads, E, BlockVisibility> problem{span,
                                                        q.matrix(Heads::count * Heads::qk),
                                                        as_const(context.view(Heads{})),
                                                        as_const(noise.view(Heads{})),
                                                        visible,
                                                        S(0.4)};
  const AttentionResult<E> result{o.matrix(Heads::count * Heads::v), lse.matrix(Heads::count)};
  block_forward_kernel(device, problem, result);
  arena_t<D> memory(device, block_attention_scratch<Heads, E>(span.context_rows(), rows));
  const auto scratch = BlockScratch<Heads, A>::allocate(memory, span.context_rows(), rows);
  block_backward_kernel(device, problem, AttentionResult<const E>(result),
                        Matrix<const A>(d_o.matrix(Heads::count * Heads::v)),
                        BlockGradients<A>{d_q.matrix(Heads::count * Heads::qk), d_context.view(Heads{}),
                                          d_noise.view(Heads{}), x.into_q, x.into_context, x.into_noise},
                        scratch);
  return {doubles(o.get()),
          doubles(lse.get()),
          doubles(d_q.get()),
          doubles(d_context.kv.get()),
          doubles(d_context.k_rope.get()),
          doubles(d_noise.kv.get()),
          doubles(d_noise.k_rope.get())};
}

/// \param result  0: o, which is rounded to T; the others are sums of T's in its accumulation type
template <class T>
double tolerance(std::size_t result) {
  if (std::is_same_v<T, double>) return 1e-10;
  return std::is_same_v<T, bfloat16> && result == 0 ? 0x1p-8 : 2e-5;
}

/// As near as other orders of the sums may bring them.
template <class T>
void check_near(const Results& found, const Results& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    CAPTURE(r);
    REQUIRE(found[r].size() == wanted[r].size());
    double largest = 0, error = 0;
    for (std::size_t i = 0; i < wanted[r].size(); ++i) {
      if (wanted[r][i] == found[r][i]) continue;  // infinite ones, too
      largest = std::max(largest, std::abs(wanted[r][i]));
      const double e = std::abs(found[r][i] - wanted[r][i]);
      error = std::isnan(e) ? INFINITY : std::max(error, e);
    }
    CHECK(error <= tolerance<T>(r) * std::max(1.0, largest));
  }
}
/// Cuda's numbers are Cpu's.
template <class Heads, class T>
void check_ttt(const Pattern& x) {
  check_near<T>(ttt<Heads, T, Cuda>(x), ttt<Heads, T, Cpu>(x));
}
template <class Heads, class T>
void check_blocks(const Blocks& x) {
  check_near<T>(blocks<Heads, T, Cuda>(x), blocks<Heads, T, Cpu>(x));
}

}  // namespace k3spec::test::attention
