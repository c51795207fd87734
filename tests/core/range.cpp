#include <k3spec/core/range.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <k3spec/core/extents.hpp>

using namespace k3spec;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Range<double> share{0, 1}, positive{.least = 0, .above = true}, clip{0, infinity, true};
constexpr Range<index_t> steps{1, 100};
}  // namespace

TEST_CASE("a range holds its ends, unless it says otherwise, and no NaN") {
  CHECK(share.contains(0));
  CHECK(share.contains(1));
  CHECK(!share.contains(-0.1));
  CHECK(!share.contains(1.1));
  CHECK(!positive.contains(0));
  CHECK(positive.contains(1e300));
  CHECK(!positive.contains(infinity));
  CHECK(clip.contains(infinity));
  CHECK(!Range<double>{.least = 0, .most = 1, .below = true}.contains(1));
  for (const auto& range : {share, positive, clip, Range<double>{}}) CHECK(!range.contains(std::nan("")));
  CHECK(!steps.contains(0));
  CHECK(steps.contains(100));
}

TEST_CASE("a range says in words what it holds") {
  CHECK(share.words() == "0 to 1");
  CHECK(positive.words() == "a number > 0");
  CHECK(Range<double>{.least = 0}.words() == "a number >= 0");
  CHECK(Range<double>{}.words() == "a number");
  CHECK(Range<double>{.least = 0, .most = 1, .above = true}.words() == "more than 0, at most 1");
  CHECK(Range<double>{.least = 0, .most = 1, .below = true}.words() == "at least 0, below 1");
  CHECK(Range<double>{0, infinity, true, false, "infinity never clips"}.words() ==
        "a number > 0 (infinity never clips)");
  CHECK(Range<index_t>{1}.words() == "at least 1");
  CHECK(Range<index_t>{}.words() == "a whole number");
  CHECK(Range<std::uint64_t>{}.words() == "0 to 2^64 - 1");
  CHECK_NOTHROW(steps.check("steps", 100));
  CHECK_THROWS_WITH_AS(steps.check("steps", 101), "steps: found 101, wanted 1 to 100", Error);
  CHECK_THROWS_WITH_AS(positive.check("eps", std::nan("")), "eps: found nan, wanted a number > 0", Error);
}
