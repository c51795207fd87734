#pragma once
/// \file
/// The fewest bits that hold a weight exactly: a checkpoint's bfloat16 and MXFP4 weights, once they are floats, are
/// found again and kept as they came, so that products with them give the floats' bits from less memory.
/// defines: WeightFormat, detail::mxfp4_scale_of, detail::mxfp4_nibble, detail::mxfp4_block_of,
/// detail::are_normal_scales, detail::weight_format

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/mxfp4.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// What a prepacked weight's numbers are kept as.
enum class WeightFormat : std::uint8_t {
  full,      ///< the accumulation type
  bfloat16,  ///< 16 bits
  mxfp4,     ///< 4 bits, and 8 for each block of 32 along a row
};

namespace detail {

/// Whether bfloat16 has each of n numbers, bit for bit.
inline bool has_bfloat16_values(const float* x, index_t n) {
  std::uint32_t low = 0;
  for (index_t i = 0; i < n; ++i) low |= std::bit_cast<std::uint32_t>(x[i]);
  return (low & 0xffffU) == 0;
}

/// A float's sign, exponent as it is stored, and fraction.
struct FloatParts {
  std::uint32_t sign, exponent, fraction;

  explicit FloatParts(float x) : FloatParts(std::bit_cast<std::uint32_t>(x)) {}
  bool is_zero() const { return exponent == 0 && fraction == 0; }
  /// Whether it is 1 or 1.5 times a power of two, which all values of E2M1 are.
  bool is_short() const { return exponent != 0 && exponent != 255 && (fraction & 0x3fffffU) == 0; }

 private:
  explicit FloatParts(std::uint32_t bits)
      : sign(bits >> 31U), exponent(bits >> 23U & 255U), fraction(bits & 0x7fffffU) {}
};

/// The scale with which E2M1 has each of a block's numbers, bit for bit: 1 to 254, and 0 where there is none.
inline std::uint8_t mxfp4_scale_of(const float* block) {
  std::uint32_t least = 1, most = 254;
  for (index_t i = 0; i < mxfp4_block; ++i) {
    const FloatParts x(block[i]);
    if (x.is_zero()) continue;
    if (!x.is_short()) return 0;
    // 0.5, 1, 2 and 4 are 2^-1 to 2^2; 1.5, 3 and 6 are 1.5 times 2^0 to 2^2.
    if (x.exponent > least + 2) least = x.exponent - 2;
    const std::uint32_t above = x.fraction == 0 ? x.exponent + 1 : x.exponent;
    if (above < most) most = above;
  }
  return least <= most ? static_cast<std::uint8_t>(least) : std::uint8_t{0};
}

/// The four bits that stand for x beside a scale from mxfp4_scale_of.
inline std::uint32_t mxfp4_nibble(float x, std::uint8_t scale) {
  const FloatParts parts(x);
  if (parts.is_zero()) return parts.sign << 3U;
  const std::uint32_t half = parts.fraction == 0 ? 0 : 1;
  // Exponents from the scale's on are 2, 4 and 6, and a bit of fraction; below it there is 0.5 alone.
  const std::uint32_t magnitude = parts.exponent < scale ? 1 : 2 * (parts.exponent - scale) + 2 + half;
  return parts.sign << 3U | magnitude;
}

/// A block of a row as floats.
template <class T>
std::array<float, static_cast<std::size_t>(mxfp4_block)> mxfp4_block_of(const T* x) {
  std::array<float, static_cast<std::size_t>(mxfp4_block)> block;
  std::transform(x, x + mxfp4_block, block.begin(), [](T value) { return static_cast<float>(value); });
  return block;
}

/// Whether all scales are normal floats, which is what products read them as: not the least, nor the one that is NaN.
inline bool are_normal_scales(const std::uint8_t* scales, index_t n) {
  return std::all_of(scales, scales + n, [](std::uint8_t s) { return s >= 1 && s <= 254; });
}

/// Whether E2M1 has every number of W [N,K].
template <class T>
bool has_mxfp4_values(const Matrix<const T>& w) {
  if (w.extent(1) % mxfp4_block != 0) return false;
  for (index_t i = 0; i < w.extent(0); ++i) {
    for (index_t k = 0; k < w.extent(1); k += mxfp4_block) {
      if (mxfp4_scale_of(mxfp4_block_of(w.row(i) + k).data()) == 0) return false;
    }
  }
  return true;
}

inline bool has_bfloat16_values(const Matrix<const float>& w) {
  for (index_t i = 0; i < w.extent(0); ++i) {
    if (!has_bfloat16_values(w.row(i), w.extent(1))) return false;
  }
  return true;
}
inline bool has_bfloat16_values(const Matrix<const bfloat16>&) { return true; }

/// The narrowest format that has every number of W [N,K], bit for bit.
template <class T>
WeightFormat weight_format(const Matrix<const T>& w) {
  if constexpr (std::same_as<accumulate_t<T>, float>) {
    if (has_mxfp4_values(w)) return WeightFormat::mxfp4;
    if (has_bfloat16_values(w)) return WeightFormat::bfloat16;
  }
  return WeightFormat::full;
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE
