#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <k3spec/io/convert.hpp>

using namespace k3spec;
using namespace k3spec::io;

namespace {

/// The nearest bfloat16 by trying the neighbours, ties to the even one.
std::uint16_t nearest(double x) {
  const auto start = bfloat16(static_cast<float>(x)).bits;
  std::uint16_t best = start;
  for (int step = -1; step <= 1; ++step) {
    const auto bits = static_cast<std::uint16_t>(start + step);
    const double error = std::abs(static_cast<float>(std::bit_cast<bfloat16>(bits)) - x);
    const double least = std::abs(static_cast<float>(std::bit_cast<bfloat16>(best)) - x);
    if (error < least || (error == least && bits % 2 == 0)) best = bits;
  }
  return best;
}

}  // namespace

TEST_CASE("doubles become bfloat16 with one rounding") {
  // Just above and below the midpoint of two neighbours: by way of float all three would be ties.
  for (const double sign : {1.0, -1.0}) {
    const double middle = 1 + 0x1p-8;
    CHECK(to_bfloat16(sign * middle).bits == nearest(sign * middle));
    CHECK(to_bfloat16(sign * (middle + 0x1p-40)).bits == nearest(sign * (middle + 0x1p-40)));
    CHECK(to_bfloat16(sign * (middle + 0x1p-40)).bits == bfloat16(static_cast<float>(sign * 1.0078125)).bits);
    const double odd = 1 + 3 * 0x1p-8;
    CHECK(to_bfloat16(sign * (odd - 0x1p-40)).bits == bfloat16(static_cast<float>(sign * 1.0078125)).bits);
    CHECK(to_bfloat16(sign * odd).bits == bfloat16(static_cast<float>(sign * 1.015625)).bits);
  }
  double x = 1e-42;
  for (int i = 0; i < 5000; ++i, x *= -1.037) {
    if (std::abs(x) > 1e38) x = 1e-45;
    CHECK(to_bfloat16(x).bits == nearest(x));
  }
  CHECK(std::isinf(static_cast<float>(to_bfloat16(1e300))));
  CHECK(to_bfloat16(-0.0).bits == 0x8000);
  CHECK(std::isnan(static_cast<float>(to_bfloat16(std::nan("")))));
}

TEST_CASE("every binary16 becomes the float of the same value") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float x = float16{static_cast<std::uint16_t>(bits)};
    const int exponent = static_cast<int>(bits >> 10U & 31U), fraction = static_cast<int>(bits & 0x3ffU);
    if (exponent == 31 && fraction != 0) {
      REQUIRE(std::isnan(x));
      continue;
    }
    double wanted = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) wanted = std::numeric_limits<double>::infinity();
    REQUIRE(x == (bits >> 15U != 0 ? -wanted : wanted));
    REQUIRE(std::signbit(x) == (bits >> 15U != 0));
  }
}

TEST_CASE("only conversions that keep the kind of a value are there") {
  for (const DType from : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    for (const DType to : {DType::F64, DType::F32, DType::BF16}) CHECK(can_convert(from, to));
    CHECK_FALSE(can_convert(from, DType::I64));
    CHECK_FALSE(can_convert(from, DType::BOOL));
  }
  CHECK_FALSE(can_convert(DType::I64, DType::F64));
  CHECK_FALSE(can_convert(DType::F8_E4M3, DType::F32));
  CHECK_FALSE(can_convert(DType::U64, DType::I64));
  CHECK_FALSE(can_convert(DType::I64, DType::I32));
  CHECK_FALSE(can_convert(DType::U8, DType::BOOL));
  CHECK(can_convert(DType::U32, DType::I64));
  CHECK(can_convert(DType::BOOL, DType::BOOL));
}

TEST_CASE("stored bytes need no alignment") {
  std::byte bytes[17];
  const double x[2] = {1.5, -2.25};
  std::memcpy(bytes + 1, x, 16);
  float out[2];
  convert(DType::F64, {bytes + 1, 16}, DType::F32, out);
  CHECK(out[0] == 1.5F);
  CHECK(out[1] == -2.25F);
}
