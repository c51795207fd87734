#include <k3spec/optimiser/schedule.hpp>

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

TEST_CASE("no warmup, and warmup as long as the run or longer") {
  CHECK(WarmupCosine{1.0, 0, 10, 0.0}(0) == 1.0);
  CHECK(WarmupCosine{1.0, 0, 1, 0.5}(1) == 0.5);
  CHECK(WarmupCosine{1.0, 10, 10, 0.1}(9) == 1.0);
  CHECK(WarmupCosine{1.0, 10, 10, 0.1}(10) == 0.1);  // not 0/0
  CHECK(WarmupCosine{1.0, 10, 10, 0.1}(11) == 0.1);
  CHECK(WarmupCosine{1.0, 20, 10, 0.1}(9) == 0.5);
  CHECK(WarmupCosine{1.0, 20, 10, 0.1}(20) == 0.1);
}

TEST_CASE("a schedule refuses what is out of range") {
  CHECK_NOTHROW(WarmupCosine{}.check());
  CHECK_THROWS_WITH_AS((WarmupCosine{.lr = -1}.check()), doctest::Contains("schedule: lr: found -1"), Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.warmup_steps = -1}.check()), doctest::Contains("warmup_steps"), Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.total_steps = 0}.check()), doctest::Contains("total_steps: found 0"), Error);
  constexpr index_t most = WarmupCosine::max_steps;
  CHECK_NOTHROW(WarmupCosine{.warmup_steps = most, .total_steps = most}.check());
  CHECK_NOTHROW(WarmupCosine{.total_steps = WarmupCosine::open}.check());
  CHECK_THROWS_WITH_AS((WarmupCosine{.total_steps = most + 1}.check()),
                       "schedule: total_steps: found 4294967297, wanted 1 to 4294967296", Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.warmup_steps = most + 1}.check()),
                       "schedule: warmup_steps: found 4294967297, wanted 0 to 4294967296", Error);
  CHECK_THROWS_WITH_AS((WarmupCosine{.min_lr_ratio = 1.5}.check()), doctest::Contains("min_lr_ratio"), Error);
}
