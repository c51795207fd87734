#include <k3spec/train/metrics.hpp>

#include <doctest/doctest.h>

using namespace k3spec;

namespace {
TttMetrics two_steps(TttStepSums first, TttStepSums second) {
  TttMetrics m(2);
  m[0] = first;
  m[1] = second;
  return m;
}
}  // namespace

TEST_CASE("metrics of batches merge by addition, not by averaging") {
  TttMetrics all = two_steps({3.0, 2, 1, 1, 4}, {1.0, 1, 1, 1, 3});
  all += two_steps({9.0, 10, 8, 8, 10}, {0.0, 0, 0, 0, 0});
  CHECK(all[0] == TttStepSums{12.0, 12, 9, 9, 14});
  CHECK(all.step_loss(0).value() == 1.0);
  CHECK(all.loss() == doctest::Approx((1.0 + 0.8 * 1.0) / 1.8));
  CHECK(all.step_accuracy(0).value() == 0.75);
  CHECK(all.accuracy() == Ratio{10, 13});
  CHECK(all.simulated_accept_length() == doctest::Approx(1 + 9.0 / 14 + 1.0 / 3));
  all.clear();
  CHECK(all == TttMetrics(2));
}

TEST_CASE("metrics of nothing are zeros, and one token per forward") {
  const TttMetrics none(3);
  CHECK(none.loss() == 0);
  CHECK(none.accuracy().value() == 0);
  CHECK(none.simulated_accept_length() == 1);
}

TEST_CASE("metrics of other depths do not merge") {
  TttMetrics a(2);
  CHECK_THROWS_WITH_AS(a += TttMetrics(3), "TttMetrics: steps: found 3, wanted 2", Error);
}
