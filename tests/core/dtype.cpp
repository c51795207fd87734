#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <k3spec/core/dtype.hpp>

using namespace k3spec;

static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);
static_assert(std::is_same_v<accumulate_t<bfloat16>, float>);
static_assert(std::is_same_v<accumulate_t<const float>, float>);
static_assert(std::is_same_v<accumulate_t<const double>, double>);
static_assert(Element<bfloat16> && Element<double> && !Element<int> && !Element<const float>);
// A value is rounded where the code says so, never by the way.
static_assert(!std::is_convertible_v<float, bfloat16> && std::is_constructible_v<bfloat16, float>);
static_assert(std::is_convertible_v<bfloat16, float>);
// Ties go to the even pattern.
static_assert(bfloat16(std::bit_cast<float>(0x3f808000U)).bits == 0x3f80);
static_assert(bfloat16(std::bit_cast<float>(0x3f818000U)).bits == 0x3f82);

namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// The magnitude of a pattern, from the definition of the format; infinity's pattern gives 2^128, where the next finite
/// number would be.
double magnitude(std::uint32_t pattern) {
  const int exponent = static_cast<int>(pattern >> 7U);
  const double fraction = pattern & 0x7fU;
  return exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
}

/// The nearer of the patterns `below` and `below + 1`; of two equally near ones the even.
std::uint32_t nearest(double value, std::uint32_t below) {
  const double down = value - magnitude(below), up = magnitude(below + 1) - value;
  if (down == up) return below + below % 2;
  return down < up ? below : below + 1;
}

}  // namespace

TEST_CASE("every bfloat16 is the float it says and survives the way there and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = std::bit_cast<bfloat16>(static_cast<std::uint16_t>(bits));
    const std::uint32_t pattern = bits & 0x7fffU;
    if (pattern > 0x7f80) {
      REQUIRE(std::isnan(float{x}));
      REQUIRE(bfloat16(float{x}).bits == (bits | 0x40U));  // quiet
      continue;
    }
    REQUIRE(std::signbit(float{x}) == (bits >= 0x8000));
    if (pattern < 0x7f80) REQUIRE(std::abs(double{float{x}}) == magnitude(pattern));
    REQUIRE(bfloat16(float{x}).bits == bits);
  }
}

TEST_CASE("floats round to the nearest bfloat16, ties to even, at every pattern") {
  for (std::uint32_t pattern = 0; pattern < 0x7f80; ++pattern) {
    for (const std::uint32_t rest : {0x0001U, 0x1234U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const std::uint32_t bits = pattern << 16U | rest;
      const std::uint32_t wanted = nearest(double{float_of(bits)}, pattern);
      REQUIRE(bfloat16(float_of(bits)).bits == wanted);
      REQUIRE(bfloat16(float_of(bits | 0x80000000U)).bits == (wanted | 0x8000U));
    }
  }
}

TEST_CASE("infinities stay, too large floats become them, NaN never does") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(bfloat16(infinity).bits == 0x7f80);
  CHECK(bfloat16(-infinity).bits == 0xff80);
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bfloat16(float_of(0x7f7f7fffU)).bits == 0x7f7f);  // the largest float that rounds to a finite number
  CHECK(bfloat16(-0.0F).bits == 0x8000);
  // Quiet and signalling, payload only in the lost half, all bits set: rounding must not carry into the exponent or
  // sign.
  for (const std::uint32_t nan : {0x7fc00000U, 0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU, 0xffc00000U}) {
    const bfloat16 x = bfloat16(float_of(nan));
    CHECK(std::isnan(float{x}));
    CHECK((x.bits & 0x40U) != 0);
    CHECK((x.bits >> 15U) == (nan >> 31U));
  }
}

TEST_CASE("element types have the names and sizes of safetensors") {
  const struct {
    DType type;
    std::string_view name;
    std::size_t size;
  } table[] = {{DType::F64, "F64", 8},   {DType::F32, "F32", 4},         {DType::F16, "F16", 2},
               {DType::BF16, "BF16", 2}, {DType::I64, "I64", 8},         {DType::I32, "I32", 4},
               {DType::I16, "I16", 2},   {DType::I8, "I8", 1},           {DType::U64, "U64", 8},
               {DType::U32, "U32", 4},   {DType::U16, "U16", 2},         {DType::U8, "U8", 1},
               {DType::BOOL, "BOOL", 1}, {DType::F8_E4M3, "F8_E4M3", 1}, {DType::F8_E5M2, "F8_E5M2", 1}};
  for (const auto& [type, text, size] : table) {
    CHECK(name(type) == text);
    CHECK(size_of(type) == size);
  }
  CHECK(size_of(dtype_of<double>) == sizeof(double));
  CHECK(size_of(dtype_of<const float>) == sizeof(float));
  CHECK(dtype_of<bfloat16> == DType::BF16);
  CHECK(dtype_of<std::int64_t> == DType::I64);
  CHECK(dtype_of<std::int32_t> == DType::I32);
  CHECK(dtype_of<std::uint8_t> == DType::U8);
  CHECK(dtype_of<bool> == DType::BOOL);
}
