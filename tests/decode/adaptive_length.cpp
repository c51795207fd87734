// How many tokens pay: what is learnt of confidences and durations, and what follows from them.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <k3spec/core/rng.hpp>
#include <k3spec/decode/adaptive_length.hpp>

using namespace k3spec;

namespace {

/// A decoder's rounds without a decoder: tokens of which the draft is `confidence(depth)` sure stay with probability
/// `stays(confidence)`; what things take is fixed, in seconds.
struct World {
  std::function<double(index_t)> confidence = [](index_t) { return 0.9; };
  std::function<double(double)> stays = [](double c) { return c; };
  bool is_chain = true;  ///< a step for each token; else a block of them in one pass
  double step = 0.1, row = 0.1, draft = 0, verify = 1, keep = 0;
  index_t texts = 1, chain = 8;
  AdaptiveLength lengths{texts, chain};
  std::uint64_t draws = 0;
  std::map<index_t, int> by_rule{};  ///< how often so many tokens were verified
  std::map<RoundKind, int> kinds{};
  double seconds = 0, tokens = 0;

  double uniform() { return Philox(5, 1).uniform(draws++); }
  /// A text's tokens in a round. \returns how many
  index_t propose(index_t text, RoundMeasure& m) {
    index_t n = 0;
    const auto steps = [&] { return !is_chain || lengths.goes_on(text); };
    if (lengths.kind() == RoundKind::plain) return 0;
    for (; n < chain && steps(); ++n) {
      if (is_chain) m.draft_seconds += step;
      if (!lengths.verifies(text, confidence(n))) break;
    }
    return n;
  }
  void round() {
    RoundMeasure m;
    const RoundKind kind = lengths.begin_round();
    ++kinds[kind];
    if (kind != RoundKind::plain) m.draft_seconds = draft;
    m.verify_seconds = verify, m.keep_seconds = keep;
    for (index_t b = 0; b < texts; ++b) {
      const index_t n = propose(b, m);
      if (kind == RoundKind::by_rule) ++by_rule[n];
      index_t accepted = 0;
      while (accepted < n && uniform() < stays(confidence(accepted))) ++accepted;
      lengths.verified(b, n, accepted);
      m.drafted += n, m.tokens += accepted + 1, m.verify_seconds += row * static_cast<double>(n);
    }
    seconds += m.seconds(), tokens += static_cast<double>(m.tokens);
    lengths.end_round(true, m);
  }
  void rounds(int n) {
    by_rule.clear(), kinds.clear(), seconds = tokens = 0;
    for (int i = 0; i < n; ++i) round();
  }
  index_t usual() const {
    return std::max_element(by_rule.begin(), by_rule.end(), [](auto& a, auto& b) { return a.second < b.second; })
        ->first;
  }
  /// The length with the most tokens a second in expectation, and those.
  std::pair<index_t, double> best() const {
    std::pair<index_t, double> best{0, 1 / (verify + keep)};
    double sum = 1, reach = 1;
    for (index_t k = 1; k <= chain; ++k) {
      sum += reach *= stays(confidence(k - 1));
      const double n = static_cast<double>(k), t = draft + (is_chain ? step * n : 0) + verify + row * n + keep;
      if (sum / t > best.second) best = {k, sum / t};
    }
    return best;
  }
};

}  // namespace

TEST_CASE("a confidence is believed until verification says otherwise, in its bin alone") {
  AcceptanceCalibration c;
  CHECK(c.acceptance(0) == 0);
  CHECK(c.acceptance(0.7) == doctest::Approx(0.7));
  CHECK(c.acceptance(1) == 1);
  CHECK(c.acceptance(2) == 1);
  CHECK(c.acceptance(-1) == 0);
  CHECK(c.acceptance(std::numeric_limits<double>::quiet_NaN()) == 0);
  // Two more tokens with the confidence's share beside it.
  c.add(0.7, true);
  CHECK(c.acceptance(0.7) == doctest::Approx(2.4 / 3));
  c.add(0.72, false);
  CHECK(c.acceptance(0.7) == doctest::Approx((1 - 1.0 / 128 + 1.4) / (2 - 1.0 / 128 + 2)));
  CHECK(c.acceptance(0.65) == 0.65);
  CHECK(c.acceptance(0.75) == 0.75);
  c.add(1, false), c.add(std::numeric_limits<double>::quiet_NaN(), true);
  CHECK(c.acceptance(1) == doctest::Approx(2.0 / 3));
  CHECK(c.acceptance(0) == doctest::Approx(1.0 / 3));
}

TEST_CASE("calibration comes to the true acceptances, and follows them") {
  const auto truth = [](double c) { return c * c; };
  AcceptanceCalibration c;
  const Philox random(3, 0);
  std::uint64_t draws = 0;
  const auto learn = [&](auto&& stays) {
    for (int i = 0; i < 8000; ++i) {
      const double confidence = random.uniform(draws++);
      c.add(confidence, random.uniform(draws++) < stays(confidence));
    }
  };
  learn(truth);
  double worst = 0;
  for (index_t bin = 0; bin < AcceptanceCalibration::bins; ++bin) {
    const double x = (static_cast<double>(bin) + 0.5) / AcceptanceCalibration::bins;
    worst = std::max(worst, std::abs(c.acceptance(x) - truth(x)));
  }
  // 128 tokens a bin, of which older ones count less: a deviation of 0.044 at most, were all counted alike.
  CHECK(worst < 0.13);
  learn([](double) { return 1.0; });
  CHECK(c.acceptance(0.1) > 0.95);
}

TEST_CASE("medians stand still when one duration stands out") {
  SmoothedMedian m;
  CHECK(m.value() == 0);
  for (const double x : {2.0, 2.0, 2.0, 900.0, 2.0, 2.0, 2.0}) m.add(x);
  CHECK(m.value() == 2);
  CHECK(m.clipped(900, 4) == 8);
  CHECK(m.clipped(3, 4) == 3);
  SmoothedMedian two;
  two.add(1);
  CHECK(two.value() == 1);
  two.add(2);
  CHECK(two.value() == 1.125);  // a quarter of the way to 1.5
  for (int i = 0; i < 40; ++i) two.add(7);
  CHECK(two.value() == doctest::Approx(7).epsilon(1e-4));
}

TEST_CASE("a line's slope is found, and bounded where it says little") {
  LineFit fit;
  CHECK(fit.slope() == 0);
  fit.add(4, 12);
  CHECK(fit.slope() == 3);  // nothing but one x is known
  fit.add(0, 10);
  CHECK(fit.slope() == doctest::Approx(0.5));
  for (const double x : {1.0, 3.0, 7.0}) fit.add(x, 10 + 0.5 * x);
  CHECK(fit.slope() == doctest::Approx(0.5));
  LineFit falling, steep, zero;
  falling.add(1, 5), falling.add(2, 4);
  CHECK(falling.slope() == 0);
  steep.add(1, 0), steep.add(2, 6);
  CHECK(steep.slope() == doctest::Approx(2).epsilon(0.02));
  zero.add(0, 5), zero.add(0, 5);
  CHECK(zero.slope() == 0);
}

TEST_CASE("costs and rates of fixed durations are found") {
  World w;
  w.step = 0.25, w.row = 0.125, w.keep = 0.5, w.verify = 2;
  w.rounds(600);
  const RoundCosts& costs = w.lengths.costs();
  CHECK(costs.step() == doctest::Approx(0.25));
  CHECK(costs.row() == doctest::Approx(0.125));
  CHECK(costs.plain_rate() == doctest::Approx(1 / 2.5));
}

TEST_CASE("chains come to the length of the most tokens a second") {
  for (const double confidence : {0.95, 0.8, 0.6}) {
    for (const double step : {0.02, 0.1, 0.2}) {
      World w;
      w.confidence = [&](index_t) { return confidence; };
      w.step = w.row = step;
      w.rounds(800);
      w.rounds(800);
      const auto best = w.best();
      CAPTURE(confidence);
      CAPTURE(step);
      CAPTURE(best.first);
      CHECK(w.tokens / w.seconds > 0.93 * best.second);
      if (w.kinds[RoundKind::by_rule] > 600) CHECK(std::abs(w.usual() - best.first) <= 1);
    }
  }
}

TEST_CASE("confidences that are too high are seen through, and a chain ends where one falls") {
  World w;
  w.chain = 6, w.lengths = AdaptiveLength(1, 6);
  // Sure of the first three, and of the fourth, wrongly.
  w.confidence = [](index_t k) { return k < 3 ? 0.98 : 0.85; };
  w.stays = [](double c) { return c > 0.9 ? c : 0.1; };
  w.row = 0.2, w.step = 0.05;
  w.rounds(1000);
  w.rounds(500);
  CHECK(w.usual() == 3);
  CHECK(w.lengths.calibration().acceptance(0.85) < 0.25);
}

TEST_CASE("a block is drafted in one pass: what pays of it is verified") {
  World w;
  w.is_chain = false, w.draft = 0.3, w.row = 0.25;
  w.confidence = [](index_t k) { return k < 2 ? 0.9 : 0.3; };
  w.rounds(600);
  w.rounds(600);
  CHECK(w.usual() == 2);
  CHECK(w.kinds[RoundKind::by_rule] > 500);
  CHECK(w.tokens / w.seconds > 0.95 * w.best().second);
}

TEST_CASE("a draft that does not pay is not asked, but for a round in 32; when it does, it is again") {
  for (const bool is_chain : {true, false}) {
    CAPTURE(is_chain);
    World w;
    w.is_chain = is_chain, w.draft = is_chain ? 0 : 0.4;
    bool good = false;
    w.stays = [&](double) { return good ? 0.95 : 0.02; };
    w.rounds(400);
    w.rounds(640);
    CHECK(w.kinds[RoundKind::plain] >= 600);
    CHECK(w.kinds[RoundKind::whole] == 10);
    CHECK(w.tokens / w.seconds > 0.9);
    good = true;
    w.rounds(640);
    w.rounds(320);
    CHECK(w.kinds[RoundKind::by_rule] == 310);
    CHECK(w.kinds[RoundKind::whole] == 5);
    CHECK(w.kinds[RoundKind::plain] == 5);
    CHECK(w.tokens / w.seconds > 0.9 * w.best().second);
    good = false;
    w.rounds(320);
    w.rounds(640);
    CHECK(w.kinds[RoundKind::plain] >= 600);
  }
}

TEST_CASE("several texts have lengths of their own") {
  AdaptiveLength lengths(3, 4);
  for (int i = 0; i < 200; ++i) {
    const bool drafts = lengths.begin_round() != RoundKind::plain;
    index_t drafted = 0, tokens = 3;
    for (index_t b = 0; drafts && b < 3; ++b) {
      index_t n = 0;
      while (n < 4 && lengths.verifies(b, b == 1 ? 0.95 : 0.05)) ++n;
      const index_t accepted = b == 1 ? n : 0;
      lengths.verified(b, n, accepted);
      drafted += n, tokens += accepted;
      if (lengths.kind() == RoundKind::by_rule && i > 100) CHECK(n == (b == 1 ? 4 : 0));
    }
    lengths.end_round(true, {.drafted = drafted,
                             .tokens = tokens,
                             .draft_seconds = drafts ? 0.1 : 0,
                             .verify_seconds = 1 + 0.1 * static_cast<double>(drafted)});
  }
  CHECK(lengths.kind() == RoundKind::by_rule);
}

TEST_CASE("lengths: chains of one and none, rounds that measured nothing, and what is refused") {
  World w;
  w.chain = 1, w.lengths = AdaptiveLength(1, 1), w.row = w.step = 0.1;
  w.rounds(300);
  CHECK(w.usual() == 1);
  AdaptiveLength none(1, 0), two(2, 3);
  for (int i = 0; i < 100; ++i) {
    none.begin_round();
    CHECK_FALSE(none.goes_on(0));
    none.verified(0, 0, 0);
    none.end_round(false, {.tokens = 1});
  }
  two.begin_round();
  CHECK(two.verifies(0, 0.5));
  CHECK(two.verifies(0, 0.5));
  CHECK_THROWS_AS(two.verified(0, 3, 0), Error);
  CHECK_THROWS_AS(two.verified(0, 2, 3), Error);
  CHECK_THROWS_AS(two.verified(2, 0, 0), Error);
  CHECK_THROWS_AS(two.verifies(-1, 0.5), Error);
  CHECK_THROWS_AS((void)two.goes_on(2), Error);
  CHECK(two.verifies(0, 0.5));
  CHECK_FALSE(two.goes_on(0));
  CHECK_THROWS_AS(two.verifies(0, 0.5), Error);
  two.end_round(true, {});
  CHECK(two.drafting_rate() == 0);
}
