#pragma once
/// \file
/// Element types. bfloat16 is a storage type: all arithmetic on it happens in float and is rounded once.
/// defines: bfloat16, accumulate_t, scalar_t, Element, DType, dtype_of, size_of, name

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>
#include <k3spec/core/placed.hpp>

namespace K3SPEC_NAMESPACE {

/// The upper half of an IEEE binary32. Conversion from float rounds to nearest, ties to even; NaN stays NaN (quiet).
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  K3SPEC_HOST_DEVICE explicit constexpr bfloat16(float value) : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  K3SPEC_HOST_DEVICE constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

 private:
  K3SPEC_HOST_DEVICE static constexpr std::uint16_t round(std::uint32_t u) {
    if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((u >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U);
  }
};

/// The types that parameters and activations are stored in, wherever they are.
template <class T>
concept Element = std::same_as < value_t<T>,
float > || std::same_as<value_t<T>, double> || std::same_as<value_t<T>, bfloat16>;

namespace detail {
template <class T>
struct Accumulate {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};
template <class T, class D>
struct Accumulate<Placed<T, D>> {
  using type = Placed<typename Accumulate<T>::type, D>;
};
}  // namespace detail

/// The type that sums, reductions, nonlinearities, parameter gradients and optimizer state of storage type T use:
/// float for bfloat16 and float, double for double; where T is.
template <class T>
using accumulate_t = typename detail::Accumulate<std::remove_cv_t<T>>::type;

/// The same as a number that an op is handed, such as a scale.
template <class T>
using scalar_t = value_t<accumulate_t<T>>;

/// Element types as files name them (safetensors spelling).
enum class DType : std::uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, F8_E4M3, F8_E5M2, BOOL };

/// The name as safetensors spells it.
constexpr std::string_view name(DType t) {
  constexpr std::string_view names[] = {"F64", "F32", "F16", "BF16", "I64",     "I32",     "I16", "I8",
                                        "U64", "U32", "U16", "U8",   "F8_E4M3", "F8_E5M2", "BOOL"};
  return names[static_cast<std::size_t>(t)];
}

/// Bytes per element.
constexpr std::size_t size_of(DType t) {
  constexpr std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1, 1, 1};
  return sizes[static_cast<std::size_t>(t)];
}

namespace detail {
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, double>) return DType::F64;
  if constexpr (std::same_as<T, float>) return DType::F32;
  if constexpr (std::same_as<T, bfloat16>) return DType::BF16;
  if constexpr (std::same_as<T, std::int64_t>) return DType::I64;
  if constexpr (std::same_as<T, std::int32_t>) return DType::I32;
  if constexpr (std::same_as<T, std::uint8_t>) return DType::U8;
  if constexpr (std::same_as<T, bool>) return DType::BOOL;
}
}  // namespace detail

/// The file spelling of a C++ element type.
template <class T>
inline constexpr DType dtype_of = detail::dtype_of<std::remove_cv_t<value_t<T>>>();

}  // namespace K3SPEC_NAMESPACE
