#pragma once
/// \file
/// An element type of eight bits, for storage alone.
/// defines: float8_e4m3fn

#include <bit>
#include <cstdint>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// PyTorch's float8_e4m3fn, F8_E4M3 in safetensors: a sign, four bits of exponent with bias 7, three of fraction; no
/// infinity, and a NaN where all but the sign are ones. Conversion from float rounds to nearest, ties to even; what
/// would be more than 448, the largest, is NaN.
/// \see Micikevicius et al., FP8 Formats for Deep Learning
struct float8_e4m3fn {
  std::uint8_t bits;

  float8_e4m3fn() = default;
  K3SPEC_HOST_DEVICE explicit constexpr float8_e4m3fn(float value) : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  K3SPEC_HOST_DEVICE constexpr operator float() const {
    const std::uint32_t magnitude = bits & nan, sign = (bits & 0x80U) << 24U;
    if (magnitude == nan) return std::bit_cast<float>(sign | 0x7fc00000U);
    if (magnitude < 8) return static_cast<float>(magnitude) * (sign == 0 ? 0x1p-9F : -0x1p-9F);
    return std::bit_cast<float>(sign | ((magnitude + bias_gap) << 20U));
  }

  static constexpr float max = 448;

 private:
  static constexpr std::uint32_t nan = 0x7f;
  /// A float's exponents are larger by 120; below them are three bits that this type keeps.
  static constexpr std::uint32_t bias_gap = 120U << 3U;

  K3SPEC_HOST_DEVICE static constexpr std::uint8_t round(std::uint32_t u) {
    const std::uint32_t magnitude = u & 0x7fffffffU, sign = (u >> 24U) & 0x80U;
    return static_cast<std::uint8_t>(sign | round_magnitude(magnitude));
  }
  K3SPEC_HOST_DEVICE static constexpr std::uint32_t round_magnitude(std::uint32_t u) {
    constexpr std::uint32_t too_large = std::bit_cast<std::uint32_t>(480.0F);
    constexpr std::uint32_t smallest_normal = std::bit_cast<std::uint32_t>(0x1p-6F);
    if (u >= too_large) return nan;
    // Of this sum the last bit is worth 2^-9, as every bit of a number below the normal ones is.
    if (u < smallest_normal) {
      return std::bit_cast<std::uint32_t>(std::bit_cast<float>(u) + 0x1p14F) - std::bit_cast<std::uint32_t>(0x1p14F);
    }
    return ((u + 0x7ffffU + ((u >> 20U) & 1U)) >> 20U) - bias_gap;
  }
};

}  // namespace K3SPEC_NAMESPACE
