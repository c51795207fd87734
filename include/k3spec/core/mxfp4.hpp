#pragma once
/// \file
/// The numbers of MXFP4: four-bit floats (E2M1) in blocks of 32 along a row, each block with one power of two (E8M0).
/// defines: mxfp4_block, mxfp4_value, mxfp4_scale
/// \see OCP Microscaling Formats (MX) Specification 1.0

#include <bit>
#include <cstdint>
#include <limits>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

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

}  // namespace K3SPEC_NAMESPACE
