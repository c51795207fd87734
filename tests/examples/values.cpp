#include "examples/common/values.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <k3spec/core/extents.hpp>

using namespace k3spec;
using examples::parse_number;
using examples::UsageError;

namespace {

constexpr Range<index_t> steps{1, 100}, many{1}, any{};
constexpr Range<std::uint64_t> seed{};
constexpr Range<double> share{0, 1}, positive{.least = 0, .above = true},
    clip{.least = 0, .most = std::numeric_limits<double>::infinity(), .above = true, .meaning = "infinity never clips"};

template <class T>
std::string refusal(const std::string& text, const Range<T>& range) {
  try {
    parse_number("--n", text, range);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "nothing refused";
}

}  // namespace

TEST_CASE("numbers of flags are read as they stand") {
  CHECK(parse_number("--n", "1", steps) == 1);
  CHECK(parse_number("--n", "100", steps) == 100);
  CHECK(parse_number("--n", "-9223372036854775808", any) == std::numeric_limits<index_t>::min());
  CHECK(parse_number("--n", "9223372036854775807", many) == std::numeric_limits<index_t>::max());
  CHECK(parse_number("--n", "18446744073709551615", seed) == std::numeric_limits<std::uint64_t>::max());
  CHECK(parse_number("--n", "0.25", share) == 0.25);
  CHECK(parse_number("--n", "1e-8", positive) == 1e-8);
  CHECK(std::isinf(parse_number("--n", "inf", clip)));
  CHECK(examples::parse_numbers("--n", "1,2,30", steps) == std::vector<index_t>{1, 2, 30});
}

TEST_CASE("what is no number, or out of range, is refused in one style") {
  for (const char* text :
       {"", " 1", "1 ", "1x", "0x10", "1e3", "1.0", "+1", "1,2", "one", "--", "1'000", "inf", "nan"}) {
    CHECK(refusal(text, steps) == "--n: found '" + std::string(text) + "', wanted a whole number, 1 to 100");
  }
  CHECK(refusal("0", steps) == "--n: found 0, wanted 1 to 100");
  CHECK(refusal("99999999999999999999", steps) == "--n: found 99999999999999999999, wanted 1 to 100");
  CHECK(refusal("0", many) == "--n: found 0, wanted at least 1");
  CHECK(refusal("9223372036854775808", many) == "--n: found 9223372036854775808, wanted at least 1, at most 2^63 - 1");
  CHECK(refusal("-1", seed) == "--n: found '-1', wanted a whole number, 0 to 2^64 - 1");
  CHECK(refusal("18446744073709551616", seed) == "--n: found 18446744073709551616, wanted 0 to 2^64 - 1");

  for (const char* text : {"", " 1", "1 ", "1x", "0x10", "1e", "+1", ".", "1,5"}) {
    CHECK(refusal(text, share) == "--n: found '" + std::string(text) + "', wanted a number, 0 to 1");
  }
  for (const char* text : {"nan", "inf", "-inf", "1.5", "-0.1"}) {
    CHECK(refusal(text, share) == "--n: found " + std::string(text) + ", wanted 0 to 1");
  }
  CHECK(refusal("nan", positive) == "--n: found nan, wanted a number > 0");
  CHECK(refusal("inf", positive) == "--n: found inf, wanted a number > 0");
  CHECK(refusal("nan", clip) == "--n: found nan, wanted a number > 0 (infinity never clips)");
  for (const char* text : {"1e400", "1e-400"}) {
    CHECK(refusal(text, positive) == "--n: found " + std::string(text) +
                                         ", wanted a number > 0, neither larger nor closer to 0 than double "
                                         "precision goes");
  }
  CHECK(refusal("1e400", clip) != "nothing refused");
  for (const char* text : {"0e400", "-0.00e400", "0e-400"}) {
    CHECK(examples::parse_number("--n", text, share) == 0);
    CHECK(refusal(text, positive) == "--n: found " + std::string(text) + ", wanted a number > 0");
  }
  CHECK_THROWS_WITH_AS(examples::parse_numbers("--n", "1,,3", steps), "--n: found '', wanted a whole number, 1 to 100",
                       UsageError);
}

TEST_CASE("what was given reaches a terminal escaped and cut") {
  CHECK(refusal("\x1b[2J", steps) == "--n: found '\\x1b[2J', wanted a whole number, 1 to 100");
  CHECK(refusal(std::string(1'000'000, '9'), steps).size() < 150);
  CHECK(refusal(std::string(1'000'000, 'x'), share).size() < 150);
}
