#pragma once
/// \file
/// Elements as files store them to elements as programs hold them, each rounded at most once.
/// defines: io::float16, io::to_bfloat16, io::can_convert, io::convert

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read in place");

/// IEEE binary16, only ever read.
struct float16 {
  std::uint16_t bits;

  /// Exact.
  constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = (bits >> 10U) & 31U, fraction = bits & 0x3ffU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23U) | (fraction << 13U));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
};

/// Nearest bfloat16, ties to even. By way of the nearest float some doubles would round twice, to the wrong
/// neighbour; here a float cut short is first made odd, so that it cannot look like a tie.
inline bfloat16 to_bfloat16(double x) {
  float f = static_cast<float>(x);
  if (std::isfinite(f) && static_cast<double>(f) != x) {
    if (std::abs(static_cast<double>(f)) > std::abs(x)) f = std::nextafter(f, 0.0F);
    f = std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) | 1U);
  }
  return bfloat16(f);
}

namespace detail {

template <class To, class From>
To convert_one(From x) {
  if constexpr (std::same_as<To, bfloat16> && std::same_as<From, double>) {
    return to_bfloat16(x);
  } else if constexpr (std::same_as<To, bfloat16>) {
    return bfloat16(static_cast<float>(x));
  } else if constexpr (std::same_as<From, bfloat16> || std::same_as<From, float16>) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// `from` need not be aligned.
template <class To, class From>
void convert_all(const std::byte* from, To* to, index_t count) {
  for (index_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, from + static_cast<std::size_t>(i) * sizeof(From), sizeof(From));
    to[i] = convert_one<To>(x);
  }
}

inline void convert_bools(const std::byte* from, bool* to, index_t count) {
  for (index_t i = 0; i < count; ++i) to[i] = from[i] != std::byte{0};
}

template <class To>
using Converter = void (*)(const std::byte*, To*, index_t);

template <class To>
constexpr Converter<To> fraction_converter(DType from) {
  switch (from) {
    case DType::F64:
      return convert_all<To, double>;
    case DType::F32:
      return convert_all<To, float>;
    case DType::F16:
      return convert_all<To, float16>;
    case DType::BF16:
      return convert_all<To, bfloat16>;
    default:
      return nullptr;
  }
}

template <class To>
constexpr Converter<To> integer_converter(DType from) {
  switch (from) {
    case DType::I64:
      return convert_all<To, std::int64_t>;
    case DType::I32:
      return convert_all<To, std::int32_t>;
    case DType::I16:
      return convert_all<To, std::int16_t>;
    case DType::I8:
      return convert_all<To, std::int8_t>;
    case DType::U32:
      return convert_all<To, std::uint32_t>;
    case DType::U16:
      return convert_all<To, std::uint16_t>;
    case DType::U8:
      return convert_all<To, std::uint8_t>;
    default:
      return nullptr;
  }
}

/// Null where values would be lost or change their kind: integers never become fractions, nor the reverse.
template <class To>
constexpr Converter<To> converter(DType from) {
  if constexpr (std::same_as<To, bool>) {
    return from == DType::BOOL ? convert_bools : nullptr;
  } else if constexpr (Element<To>) {
    return fraction_converter<To>(from);
  } else if constexpr (std::same_as<To, std::int64_t>) {
    return integer_converter<To>(from);
  } else {
    return from == dtype_of<To> ? convert_all<To, To> : nullptr;
  }
}

/// Calls f with a null pointer of the C++ type; false for types programs do not hold.
template <class F>
bool with_type(DType type, F&& f) {
  switch (type) {
    case DType::F64:
      f(static_cast<double*>(nullptr));
      return true;
    case DType::F32:
      f(static_cast<float*>(nullptr));
      return true;
    case DType::BF16:
      f(static_cast<bfloat16*>(nullptr));
      return true;
    case DType::I64:
      f(static_cast<std::int64_t*>(nullptr));
      return true;
    case DType::I32:
      f(static_cast<std::int32_t*>(nullptr));
      return true;
    case DType::U8:
      f(static_cast<std::uint8_t*>(nullptr));
      return true;
    case DType::BOOL:
      f(static_cast<bool*>(nullptr));
      return true;
    default:
      return false;
  }
}

}  // namespace detail

/// Whether elements stored as `from` can be held as `to`: any of F64, F32, F16, BF16 as double, float or bfloat16;
/// integers as int64 where all their values fit; everything as itself.
inline bool can_convert(DType from, DType to) {
  bool can = false;
  detail::with_type(to, [&]<class To>(To*) { can = detail::converter<To>(from) != nullptr; });
  return can;
}

/// `bytes` need not be aligned; its size is count x size_of(from), and `out` has room for as many of `to`.
/// \throws Error unless can_convert(from, to), or on bytes that are no whole elements
inline void convert(DType from, std::span<const std::byte> bytes, DType to, void* out) {
  if (!can_convert(from, to))
    throw Error("convert", std::string(name(from)), "what " + std::string(name(to)) + " can hold");
  const auto count = static_cast<index_t>(bytes.size() / size_of(from));
  if (bytes.size() % size_of(from) != 0) {
    throw Error("convert: bytes", std::to_string(bytes.size()), "a multiple of " + std::to_string(size_of(from)));
  }
  detail::with_type(to,
                    [&]<class To>(To*) { detail::converter<To>(from)(bytes.data(), static_cast<To*>(out), count); });
}

}  // namespace K3SPEC_NAMESPACE::io
