#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/backend/cpu/attention_residual.hpp>
#include <k3spec/backend/cpu/attention_tile.hpp>
#include <k3spec/backend/cpu/running_softmax.hpp>
#include <k3spec/core/rng.hpp>

using namespace k3spec;

namespace {

/// f(chain's sum, element) over the elements dealt out to C chains, which are then halved: the order as it is written
/// down, one number at a time.
template <class S, class F>
S in_order(index_t n, F&& f) {
  constexpr std::size_t chains = 64 / sizeof(S);
  std::vector<S> sums(chains, S(0));
  for (index_t i = 0; i < n; ++i) {
    S& sum = sums[static_cast<std::size_t>(i) % chains];
    sum = f(sum, i);
  }
  for (std::size_t half = chains / 2; half > 0; half /= 2) {
    for (std::size_t c = 0; c < half; ++c) sums[c] = sums[c] + sums[c + half];
  }
  return sums[0];
}

/// Of different sizes, so that another order is another sum; not so different that the largest hides the others.
template <class S>
std::vector<S> numbers(index_t n, std::uint64_t seed) {
  const Philox random(seed, 0);
  std::vector<S> x;
  for (index_t i = 0; i < n; ++i) {
    const double z = random.normal(static_cast<std::uint64_t>(i));
    x.push_back(static_cast<S>(z * std::exp2(static_cast<double>(i * 7 % 5))));
  }
  return x;
}

using Tile = cpu::AttentionTile<AttentionHeads<1, 4, 2, 4>>;

}  // namespace

TEST_CASE_TEMPLATE("sums of packets have one order, whatever a register holds", S, float, double) {
  for (const index_t n : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 23, 31, 32, 40, 100}) {
    CAPTURE(n);
    const auto a = numbers<S>(n, 1), b = numbers<S>(n, 2);
    const auto at = [](const auto& v, index_t i) { return v[static_cast<std::size_t>(i)]; };
    const S dot = in_order<S>(n, [&](S sum, index_t i) { return std::fma(at(a, i), at(b, i), sum); });
    CHECK(Tile::dot(a.data(), b.data(), n) == dot);
    if (n == 0) continue;
    const S squares = in_order<S>(n, [&](S sum, index_t i) { return std::fma(at(a, i), at(a, i), sum); });
    CHECK(cpu::residual_score<S>(a.data(), b.data(), n, 1e-5) ==
          dot / std::sqrt(squares / static_cast<S>(n) + static_cast<S>(1e-5)));
  }
}

TEST_CASE("of bfloat16, too, whose products are sums of float") {
  for (const index_t n : {1, 8, 15, 17, 40}) {
    CAPTURE(n);
    std::vector<bfloat16> a;
    for (const float x : numbers<float>(n, 1)) a.push_back(bfloat16(x));
    const auto b = numbers<float>(n, 2);
    const auto at = [](const auto& v, index_t i) { return static_cast<float>(v[static_cast<std::size_t>(i)]); };
    CHECK(Tile::dot(a.data(), b.data(), n) ==
          in_order<float>(n, [&](float sum, index_t i) { return std::fma(at(a, i), at(b, i), sum); }));
  }
}

TEST_CASE_TEMPLATE("a softmax's mass has that order, too", S, float, double) {
  for (const index_t packets : {1, 2, 3, 5, 8}) {
    const index_t m = packets * std::max<index_t>(Packet<S>::width, 8);
    CAPTURE(m);
    auto scores = numbers<S>(m, 3);
    for (S& s : scores) s = s / S(16);
    scores[5] = -std::numeric_limits<S>::infinity();
    cpu::RunningSoftmax<S> softmax;
    CHECK(softmax.add(scores.data(), m) == 0);
    CHECK(softmax.total == in_order<S>(m, [&](S sum, index_t i) { return sum + scores[static_cast<std::size_t>(i)]; }));
    CHECK(scores[5] == 0);
  }
}

TEST_CASE_TEMPLATE("a register's sum is made by halves", S, float, double) {
  constexpr index_t width = Packet<S>::width;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto x = numbers<S>(width, seed);
    const S found = sum(Packet<S>::load(x.data()));
    for (std::size_t half = x.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) x[i] = x[i] + x[i + half];
    }
    CHECK(found == x[0]);
  }
}
