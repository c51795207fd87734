#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include <k3spec/core/float8.hpp>

using namespace k3spec;

static_assert(sizeof(float8_e4m3fn) == 1 && std::is_trivially_copyable_v<float8_e4m3fn>);
// A value is rounded where the code says so, never by the way.
static_assert(!std::is_convertible_v<float, float8_e4m3fn> && std::is_convertible_v<float8_e4m3fn, float>);
static_assert(float8_e4m3fn(1.0F).bits == 0x38 && float8_e4m3fn(-448.0F).bits == 0xfe);
static_assert(float8_e4m3fn(0x1p-9F).bits == 1 && float8_e4m3fn(0x1p-6F).bits == 8);

namespace {

constexpr std::uint32_t largest = 0x7e;

/// The magnitude of a pattern, from the definition of the format; NaN's gives 480, where the next number would be.
double magnitude(std::uint32_t pattern) {
  const int exponent = static_cast<int>(pattern >> 3U);
  const double fraction = pattern & 7U;
  return exponent == 0 ? std::ldexp(fraction / 8, -6) : std::ldexp(1 + fraction / 8, exponent - 7);
}

/// The nearest pattern of all, of two equally near ones the even; for what is nearer to 480, NaN's.
std::uint32_t nearest(double value) {
  std::uint32_t best = 0;
  for (std::uint32_t p = 1; p <= largest + 1; ++p) {
    const double better = std::abs(value - magnitude(best)) - std::abs(value - magnitude(p));
    if (better > 0 || (better == 0 && p % 2 == 0)) best = p;
  }
  return best;
}

/// Of a number that is not negative, and of its opposite.
void check_nearest(float x) {
  CAPTURE(x);
  const std::uint32_t wanted = nearest(x);
  REQUIRE(float8_e4m3fn(x).bits == wanted);
  REQUIRE(float8_e4m3fn(-x).bits == (wanted | 0x80U));
}

}  // namespace

TEST_CASE("every float8_e4m3fn is the number that it says and survives the way there and back") {
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    CAPTURE(bits);
    const auto x = std::bit_cast<float8_e4m3fn>(static_cast<std::uint8_t>(bits));
    REQUIRE(std::signbit(float{x}) == (bits >= 0x80));
    if ((bits & 0x7fU) == 0x7f) {
      REQUIRE(std::isnan(float{x}));
    } else {
      REQUIRE(std::abs(double{float{x}}) == magnitude(bits & 0x7fU));
    }
    REQUIRE(float8_e4m3fn(float{x}).bits == bits);
  }
}

TEST_CASE("floats round to the nearest float8_e4m3fn, ties to even, at every number and between any two") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t pattern = 0; pattern < largest; ++pattern) {
    const auto below = static_cast<float>(magnitude(pattern)), above = static_cast<float>(magnitude(pattern + 1));
    const float middle = (below + above) / 2;
    for (const float x : {below, middle, above, std::nextafter(middle, 0.0F), std::nextafter(middle, infinity),
                          std::nextafter(below, infinity), below + (above - below) * 0.3F}) {
      check_nearest(x);
    }
  }
  for (const float x : {0.0F, 0x1p-149F, 0x1p-126F, 0x1p-20F, 3.14159265F, 0.1F, 417.3F}) check_nearest(x);
}

TEST_CASE("too large a number is no float8_e4m3fn, nor is NaN") {
  const float infinity = std::numeric_limits<float>::infinity(), tie = 464;  // in the middle of 448 and 480
  CHECK(float8_e4m3fn(tie).bits == 0x7e);
  for (const float x : {std::nextafter(tie, infinity), 479.9F, 480.0F, 500.0F, 1e30F, infinity,
                        std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
    CAPTURE(x);
    CHECK(float8_e4m3fn(x).bits == 0x7f);
    CHECK(float8_e4m3fn(std::copysign(x, -1.0F)).bits == 0xff);
  }
}
