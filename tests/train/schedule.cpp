#include <k3spec/train/schedule.hpp>

#include <doctest/doctest.h>

using namespace k3spec;

// The exact table is checked with AdamW's reference case.

TEST_CASE("the rate rises, falls and stays") {
  const WarmupCosine rate{2.0, 4, 12, 0.1};
  CHECK(rate(0) == 0.5);
  CHECK(rate(3) == 2.0);
  CHECK(rate(4) == 2.0);
  CHECK(rate(8) == doctest::Approx(1.1));
  CHECK(rate(11) > 0.2);
  CHECK(rate(12) == doctest::Approx(0.2));
  CHECK(rate(1000) == doctest::Approx(0.2));
}

TEST_CASE("no warmup, and warmup longer than the run") {
  CHECK(WarmupCosine{1.0, 0, 10, 0.0}(0) == 1.0);
  CHECK(WarmupCosine{1.0, 0, 1, 0.5}(1) == 0.5);
  CHECK(WarmupCosine{1.0, 20, 10, 0.1}(9) == 0.5);
  CHECK(WarmupCosine{1.0, 20, 10, 0.1}(20) == 0.1);
}

TEST_CASE("a schedule refuses what is out of range") {
  CHECK_NOTHROW(WarmupCosine{}.check());
  CHECK_THROWS_WITH_AS((WarmupCosine{.lr = -1}.check()), doctest::Contains("schedule: lr: found -1"), Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.warmup_steps = -1}.check()), doctest::Contains("warmup_steps"), Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.total_steps = 0}.check()), doctest::Contains("total_steps: found 0"), Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.min_lr_ratio = 1.5}.check()), doctest::Contains("min_lr_ratio"), Error);
}
