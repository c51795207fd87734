#include <k3spec/io/mxfp4.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/reference_case.hpp"

using namespace k3spec;
using namespace k3spec::io;

static_assert(mxfp4_scale(127) == 1 && mxfp4_scale(0) == 0x1p-127F && mxfp4_scale(254) == 0x1p127F);
static_assert(mxfp4_value(0b1111) == -6 && mxfp4_value(0b0001) == 0.5F);

namespace {

/// By the definition: sign, exponent of bias 1, one bit of fraction.
double defined(unsigned nibble, int scale) {
  const int exponent = static_cast<int>(nibble >> 1U & 3U), fraction = static_cast<int>(nibble & 1U);
  const double magnitude = exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
  const double value = nibble >> 3U != 0 ? -magnitude : magnitude;
  return scale == 255 ? std::nan("") : std::ldexp(value, scale - 127);
}

template <class T>
void check_all_values() {
  std::vector<std::uint8_t> packed(256 * 16), scale(256);
  for (std::size_t s = 0; s < 256; ++s) {
    scale[s] = static_cast<std::uint8_t>(s);
    for (std::size_t i = 0; i < 16; ++i) packed[s * 16 + i] = static_cast<std::uint8_t>(i | (15 - i) << 4U);
  }
  std::vector<T> weight(256 * 32);
  dequantize_mxfp4(View<const std::uint8_t, 256, 16>(packed.data()), View<const std::uint8_t, 256, 1>(scale.data()),
                   View<T, 256, 32>(weight.data()));
  for (int s = 0; s < 256; ++s) {
    for (unsigned i = 0; i < 32; ++i) {
      const double found = static_cast<double>(weight[static_cast<std::size_t>(s) * 32 + i]);
      const double exact = defined(i % 2 == 0 ? i / 2 : 15 - i / 2, s);
      const double wanted = std::is_same_v<T, double> ? exact : static_cast<double>(static_cast<float>(exact));
      REQUIRE(std::isnan(found) == std::isnan(wanted));
      if (std::isnan(wanted)) continue;
      REQUIRE(found == wanted);
      REQUIRE(std::signbit(found) == std::signbit(wanted));
    }
  }
}

}  // namespace

TEST_CASE("all four-bit values under all scales are exact, subnormals included") {
  check_all_values<double>();
  check_all_values<float>();
  check_all_values<bfloat16>();
}

TEST_CASE("MXFP4 weights equal the reference, bit for bit") {
  auto ref = test::ReferenceCase::load("cases/mxfp4");
  const auto packed = ref.values<std::uint8_t>("input.packed");
  const auto scale = ref.values<std::uint8_t>("input.scale");
  const index_t rows = ref.shape("output.weight")[0], columns = ref.shape("output.weight")[1];
  std::vector<double> weight(static_cast<std::size_t>(rows * columns));
  dequantize_mxfp4(Matrix<const std::uint8_t>(packed.data(), rows, columns / 2),
                   Matrix<const std::uint8_t>(scale.data(), rows, columns / 32),
                   Matrix<double>(weight.data(), rows, columns));
  const auto wanted = ref.file().read_bytes("output.weight");
  CHECK(std::memcmp(weight.data(), wanted.data(), wanted.size()) == 0);
  ref.compare("output.weight", Matrix<double>(weight.data(), rows, columns), 0);
  ref.finish();
}

TEST_CASE("MXFP4 extents that disagree are refused") {
  std::vector<std::uint8_t> bytes(256);
  std::vector<float> weight(256);
  const auto refuse = [&](index_t out, index_t in, index_t po, index_t pw, index_t so, index_t sw, const char* what) {
    CHECK_THROWS_WITH_AS(
        dequantize_mxfp4(Matrix<const std::uint8_t>(bytes.data(), po, pw),
                         Matrix<const std::uint8_t>(bytes.data(), so, sw), Matrix<float>(weight.data(), out, in)),
        doctest::Contains(what), Error);
  };
  refuse(2, 33, 2, 16, 2, 1, "whole blocks of 32: found 1, wanted 0");
  refuse(2, 64, 3, 32, 2, 2, "rows of packed: found 3, wanted 2");
  refuse(2, 64, 2, 64, 2, 2, "columns of packed: found 64, wanted 32");
  refuse(2, 64, 2, 32, 1, 2, "rows of scale: found 1, wanted 2");
  refuse(2, 64, 2, 32, 2, 1, "columns of scale: found 1, wanted 2");
  dequantize_mxfp4(Matrix<const std::uint8_t>(bytes.data(), 0, 32), Matrix<const std::uint8_t>(bytes.data(), 0, 2),
                   Matrix<float>(weight.data(), 0, 64));
}
