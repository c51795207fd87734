// Attention of drafts in training on a card: the numbers of Cpu, whatever is seen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <k3spec/core/rng.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/ttt_attention.hpp>

#include "device.hpp"

using namespace k3spec;

namespace {

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
template <class Heads, class T>
void check_ttt(const Pattern& x) {
  check_near<T>(ttt<Heads, T, Cuda>(x), ttt<Heads, T, Cpu>(x));
}
template <class Heads, class T>
void check_blocks(const Blocks& x) {
  check_near<T>(blocks<Heads, T, Cuda>(x), blocks<Heads, T, Cpu>(x));
}

/// Documents of 1, 2, 5 and what is left, in every sequence.
std::vector<index_t> documents(index_t sequences, index_t length) {
  std::vector<index_t> starts;
  for (index_t s = 0; s < sequences; ++s) {
    for (index_t i = 0; i < length; ++i) starts.push_back(i < 1 ? 0 : i < 3 ? 1 : i < 8 ? 3 : 8);
  }
  return starts;
}

}  // namespace

TEST_CASE_TEMPLATE("attention of TTT steps on Cuda has Cpu's numbers", T, double, float, bfloat16) {
  check_ttt<Narrow, T>({2, 37, 3});
  check_ttt<Wide, T>({1, 70, 2});
}

TEST_CASE("attention of TTT steps on Cuda: one position, none, documents, padding, where gradients go") {
  check_ttt<Narrow, double>({3, 1, 2});
  check_ttt<Narrow, double>({0, 5, 2});
  check_ttt<Narrow, double>({2, 0, 2});
  check_ttt<Narrow, double>({2, 41, 2, documents(2, 41)});
  Pattern padded{2, 41, 2};
  for (index_t i = 0; i < 82; ++i)
    padded.attention_mask.push_back(i % 41 != 0 && i % 7 != 3);  // the first sees nothing
  check_ttt<Narrow, double>(padded);
  padded.into_q = padded.into_keys = Into::accumulate;
  check_ttt<Narrow, double>(padded);
  padded.into_q = Into::nothing;
  check_ttt<Narrow, double>(padded);
  padded.into_q = Into::overwrite, padded.into_keys = Into::nothing;
  check_ttt<Narrow, double>(padded);
}

TEST_CASE(
    "attention on Cuda: a query sees the keys of its document up to its own, and a NaN elsewhere changes nothing") {
  Pattern x{1, 41, 2, documents(1, 41)};
  x.attention_mask.assign(41, 1), x.attention_mask[20] = 0;
  const Results wanted = ttt<Narrow, double, Cuda>(x);
  constexpr index_t v = Narrow::count * Narrow::v, kv = Narrow::count * Narrow::kv;
  for (const index_t spoilt : {0, 2, 7, 12, 20, 40}) {
    CAPTURE(spoilt);
    x.spoilt = {spoilt};
    const Results found = ttt<Narrow, double, Cuda>(x);
    const auto differs = [&](std::size_t result, index_t row, index_t width) {
      return !std::equal(wanted[result].begin() + row * width, wanted[result].begin() + (row + 1) * width,
                         found[result].begin() + row * width);
    };
    for (index_t query = 0; query < 41; ++query) {
      CAPTURE(query);
      const auto begin = x.document_starts[static_cast<std::size_t>(query)];
      const bool seen = spoilt != 20 && begin <= spoilt && spoilt <= query;
      CHECK(differs(0, query, v) == seen);
      // A key's gradient is another only where a query that sees it sees the spoilt one, too.
      const auto key = query;
      bool shares = false;
      for (index_t i = std::max(key, spoilt); i < 41 && spoilt != 20 && key != 20; ++i) {
        const auto start = x.document_starts[static_cast<std::size_t>(i)];
        shares = shares || (start <= key && start <= spoilt);
      }
      CHECK(differs(3, key, kv) == shares);
    }
  }
}

TEST_CASE_TEMPLATE("attention of blocks on Cuda has Cpu's numbers", T, double, float, bfloat16) {
  check_blocks<Narrow, T>({2, 40, 5, {3, 17, 39, 0, 40, 8}});
  check_blocks<Wide, T>({1, 70, 3, {69, 2, 35}, {}, {}, 8, true});
}

TEST_CASE("attention of blocks on Cuda: no block, no context, blocks that are not kept, documents, windows") {
  check_blocks<Narrow, double>({2, 7, 3, {}});
  check_blocks<Narrow, double>({0, 7, 3, {}});
  check_blocks<Narrow, double>({1, 0, 3, {0}});
  check_blocks<Narrow, double>({2, 1, 1, {0, 1}});
  Blocks x{2, 41, 19, {12, 40, 3, 7, 20, 20}, {1, 0, 1, 1, 1, 0}, documents(2, 41), 8, true};
  check_blocks<Narrow, double>(x);
  x.into_q = x.into_context = x.into_noise = Into::accumulate, x.causal = false;
  check_blocks<Narrow, double>(x);
  x.into_context = Into::nothing;
  check_blocks<Narrow, double>(x);
  x.into_noise = Into::nothing;
  check_blocks<Narrow, double>(x);
  x.into_q = Into::nothing, x.into_context = Into::overwrite;
  check_blocks<Narrow, double>(x);
}

TEST_CASE(
    "attention of blocks on Cuda: an anchor that is no position is named when the host waits, and leads nowhere") {
  const Cuda cuda(test::small_workspaces);
  const BlockSpan span{2, 7, 2, 3};
  const auto check = [&](std::vector<index_t> anchors, std::vector<std::uint8_t> keep, std::vector<index_t> starts) {
    test::Mirror<index_t, Cuda> on_card(anchors), starts_there(starts);
    test::Mirror<std::uint8_t, Cuda> keep_there(keep);
    BlockVisibility visible{bare(on_card.vector().data())};
    if (!keep.empty()) visible.keep = bare(keep_there.vector().data());
    if (!starts.empty()) visible.document_starts = bare(starts_there.vector().data());
    require_anchors(cuda, visible, span);
    cuda.synchronize();
  };
  CHECK_NOTHROW(check({0, 7, 3, 6}, {}, {}));
  CHECK_THROWS_WITH_AS(check({0, 7, 8, 9}, {}, {}), doctest::Contains("row 2"), Error);
  CHECK_THROWS_WITH_AS(check({0, -1, 8, 9}, {}, {}), doctest::Contains("row 1"), Error);
  CHECK_NOTHROW(check({0, 99, 3, 6}, {1, 0, 1, 1}, {}));
  std::vector<index_t> starts(14, 0);
  CHECK_NOTHROW(check({0, 6, 3, 6}, {}, starts));
  CHECK_THROWS_WITH_AS(check({0, 7, 3, 6}, {}, starts), doctest::Contains("row 1"), Error);
  starts[7 + 3] = 4;
  CHECK_THROWS_WITH_AS(check({0, 6, 3, 6}, {}, starts), doctest::Contains("row 2"), Error);
  for (const index_t anchor : {index_t{-1}, index_t{1} << 40}) {
    Blocks x{1, 7, 3, {2, anchor}};
    const auto found = blocks<Narrow, double, Cuda>(x);
    x.keep = {1, 0};
    check_near<double>(found, blocks<Narrow, double, Cuda>(x));
  }
}
