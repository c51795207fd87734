#pragma once
/// \file
/// MXFP4 weights: blocks of 32 four-bit floats (E2M1) along a row, each block with one power of two (E8M0).
/// defines: io::mxfp4_block, io::mxfp4_value, io::mxfp4_scale, io::dequantize_mxfp4
/// \see OCP Microscaling Formats (MX) Specification 1.0

#include <bit>
#include <cstdint>
#include <limits>
#include <string>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE::io {

/// Elements that share a scale.
inline constexpr index_t mxfp4_block = 32;

/// What four bits stand for: sign, two bits of exponent, one of fraction.
template <class T = float>
constexpr T mxfp4_value(unsigned nibble) {
  constexpr T magnitudes[] = {0, T(0.5), 1, T(1.5), 2, 3, 4, 6};
  const T magnitude = magnitudes[nibble & 7U];
  return (nibble & 8U) != 0 ? -magnitude : magnitude;
}

/// 2^(scale - 127), exact down to 2^-127; 255 is NaN. T is float or double.
template <class T = float>
constexpr T mxfp4_scale(std::uint8_t scale) {
  if (scale == 255) return std::numeric_limits<T>::quiet_NaN();
  // Float has no bits for 2^-127 as a normal number.
  const std::uint32_t bits = scale == 0 ? 0x00400000U : std::uint32_t{scale} << 23U;
  return static_cast<T>(std::bit_cast<float>(bits));
}

namespace detail {

/// One row. Every product is exact, but for those beyond float's range, which are infinite in float and bfloat16.
template <class T>
void dequantize_row(const std::uint8_t* packed, const std::uint8_t* scale, T* out, index_t width) {
  using A = accumulate_t<T>;
  for (index_t block = 0; block < width / mxfp4_block; ++block) {
    const A factor = mxfp4_scale<A>(scale[block]);
    for (index_t i = 0; i < mxfp4_block / 2; ++i, ++packed, out += 2) {
      out[0] = static_cast<T>(factor * mxfp4_value<A>(*packed & 15U));
      out[1] = static_cast<T>(factor * mxfp4_value<A>(*packed >> 4U));
    }
  }
}

inline void check_mxfp4_extent(const char* what, index_t found, index_t wanted) {
  if (found != wanted) throw Error(std::string("MXFP4: ") + what, std::to_string(found), std::to_string(wanted));
}

}  // namespace detail

/// An MXFP4 weight as numbers.
/// \param packed  [out, in/2], the low four bits of a byte being the even element
/// \param scale   [out, in/32]
/// \param weight  [out, in]
/// \throws Error when run-time extents disagree or `in` is no multiple of 32
template <Element T, index_t PO, index_t PW, index_t SO, index_t SW, index_t Out, index_t In>
void dequantize_mxfp4(View<const std::uint8_t, PO, PW> packed, View<const std::uint8_t, SO, SW> scale,
                      View<T, Out, In> weight) {
  static_assert(In == dyn || In % mxfp4_block == 0,
                "an MXFP4 row is made of blocks of 32: its width must be a multiple");
  const index_t out = weight.extent(0), in = weight.extent(1);
  detail::check_mxfp4_extent("width beyond whole blocks of 32", in % mxfp4_block, 0);
  detail::check_mxfp4_extent("rows of packed", packed.extent(0), out);
  detail::check_mxfp4_extent("columns of packed", packed.extent(1), in / 2);
  detail::check_mxfp4_extent("rows of scale", scale.extent(0), out);
  detail::check_mxfp4_extent("columns of scale", scale.extent(1), in / mxfp4_block);
  for (index_t i = 0; i < out; ++i) detail::dequantize_row(packed.row(i), scale.row(i), weight.row(i), in);
}

}  // namespace K3SPEC_NAMESPACE::io
