// Absorbed attention over intervals of a cache, against the formula; and its bits do not depend on the queries beside.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/core/rng.hpp>
#include <k3spec/ops/latent_attention.hpp>

#include "tests/ops/offsets.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;

namespace {

constexpr index_t heads = 3, latent = 7, width = 7 + 5, positions = 300;

template <class S>
std::vector<S> random(index_t n, std::uint64_t stream) {
  std::vector<S> x;
  for (index_t i = 0; i < n; ++i) x.push_back(static_cast<S>(Philox(5, stream).normal(static_cast<std::uint64_t>(i))));
  return x;
}

template <class S>
struct Problem {
  index_t tokens;
  double scale = 0.3;
  std::vector<S> q = random<S>(tokens * heads * width, 1), kv = random<S>(positions * width, 2);

  /// o [n · heads, latent] of tokens [first, first + n)
  template <class Sees>
  std::vector<S> run(index_t first, index_t n, const Sees& sees) const {
    std::vector<S> o(static_cast<std::size_t>(n * heads * latent), std::numeric_limits<S>::quiet_NaN()),
        scores(static_cast<std::size_t>(n * heads * attention_tile), std::numeric_limits<S>::quiet_NaN()),
        top(static_cast<std::size_t>(n * heads)), total(top);
    const auto seen = [&](index_t t) { return sees(first + t); };
    const LatentSequence<S, decltype(seen)> sequence{Matrix<S>(const_cast<S*>(kv.data()), positions, width), 0, n,
                                                     seen};
    latent_attention(
        Cpu{1}, LatentAttention<S, decltype(seen)>{
                    Matrix<const S>(q.data() + first * heads * width, n * heads, width),
                    Matrix<S>(o.data(), n * heads, latent), Matrix<S>(scores.data(), n * heads, attention_tile),
                    Vector<S>(top.data(), n * heads), Vector<S>(total.data(), n * heads), &sequence, 1, heads, scale});
    return o;
  }

  /// Largest difference from the formula in double.
  template <class Sees>
  double error(const std::vector<S>& o, const Sees& sees) const {
    double worst = 0;
    for (index_t r = 0; r < tokens * heads; ++r) {
      const Interval seen = sees(r / heads);
      std::vector<double> wanted(static_cast<std::size_t>(latent));
      double total = 0;
      for (index_t j = seen.begin; j < seen.end; ++j) {
        double s = 0;
        for (index_t i = 0; i < width; ++i)
          s += double(q[std::size_t(r * width + i)]) * double(kv[std::size_t(j * width + i)]);
        const double weight = std::exp(scale * s);
        total += weight;
        for (index_t i = 0; i < latent; ++i) wanted[std::size_t(i)] += weight * double(kv[std::size_t(j * width + i)]);
      }
      for (index_t i = 0; i < latent; ++i) {
        const double e = std::abs(double(o[std::size_t(r * latent + i)]) - wanted[std::size_t(i)] / total);
        worst = std::isnan(e) ? e : std::max(worst, e);
      }
    }
    return worst;
  }
};

template <class Sees>
void check(index_t tokens, const Sees& sees) {
  const Problem<double> exact{tokens};
  CHECK(exact.error(exact.run(0, tokens, sees), sees) < 1e-13);
  const Problem<float> p{tokens};
  const auto all = p.run(0, tokens, sees);
  CHECK(p.error(all, sees) < 1e-5);
  std::vector<float> one_by_one;
  for (index_t t = 0; t < tokens; ++t) {
    const auto o = p.run(t, 1, sees);
    one_by_one.insert(one_by_one.end(), o.begin(), o.end());
  }
  CHECK(test::same_bits(all, one_by_one));
}

}  // namespace

TEST_CASE("latent attention: causal, bidirectional, and windows that begin in other tiles") {
  for (const index_t n : {0, 1, 63, 64, 65, 130, 200}) {
    for (const index_t tokens : {1, 5, 16, 70}) {
      check(tokens, [&](index_t t) { return Interval{0, n + t + 1}; });
      check(tokens, [&](index_t) { return Interval{0, n + tokens}; });
      for (const index_t window : {1, 3, 70, 500}) {
        const auto begin = [&](index_t t) { return std::min(n, std::max<index_t>(0, n + t - window + 1)); };
        check(tokens, [&](index_t t) { return Interval{begin(t), n + tokens}; });
        check(tokens, [&](index_t t) { return Interval{begin(t), n + t + 1}; });
      }
      // Every token its own place, so that tiles are left behind.
      check(std::min<index_t>(tokens, 20), [&](index_t t) { return Interval{n / 2 + 7 * t, n / 2 + 7 * t + 2}; });
    }
  }
}

TEST_CASE("latent attention: what is not seen in a tile may be anything finite, and behind it anything") {
  Problem<float> p{4};
  const auto sees = [](index_t t) { return Interval{10 + t, 40 + t}; };
  const auto before = p.run(0, 4, sees);
  for (const index_t j : {0, 9, 43, 63}) std::fill_n(p.kv.begin() + j * width, width, 50.0F);
  CHECK(test::same_bits(p.run(0, 4, sees), before));
  // A key that one token sees changes that one alone.
  std::fill_n(p.kv.begin() + 42 * width, width, 1.0F);
  const auto after = p.run(0, 4, sees);
  CHECK(std::equal(before.begin(), before.begin() + 3 * heads * latent, after.begin()));
  CHECK(!std::equal(before.begin() + 3 * heads * latent, before.end(), after.begin() + 3 * heads * latent));

  // As a drafted token's that does not stay: the tokens before it keep their bits. In one tile, and at a tile's begin.
  for (const index_t end : {40, 62}) {
    const auto ends = [&](index_t t) { return Interval{10 + t, end + t}; };
    Problem<float> later{6};
    const auto wanted = later.run(0, 6, ends);
    std::fill_n(later.kv.begin() + (end + 3) * width, 2 * width, std::numeric_limits<float>::quiet_NaN());
    const auto found = later.run(0, 6, ends);
    CHECK(std::equal(wanted.begin(), wanted.begin() + 4 * heads * latent, found.begin()));
    for (std::size_t i = 4 * heads * latent; i < found.size(); ++i) CHECK(std::isnan(found[i]));
  }
}

TEST_CASE_TEMPLATE("latent attention: an offset of all scores changes no bit", S, double, float) {
  // In the last column, one of k_rope's.
  const auto run = [](double q, double k) {
    Problem<S> p{5, 0.25};
    test::round_to_eighths(p.q), test::round_to_eighths(p.kv);
    test::set_column(p.q, width, width - 1, q), test::set_column(p.kv, width, width - 1, k);
    return p.run(0, 5, [](index_t t) { return Interval{3 * t, 150 + t}; });
  };
  const auto wanted = run(0, 0);
  for (const test::Offset& offset : test::offsets) CHECK(test::same_bits(run(offset.q, offset.k), wanted));
}
