#pragma once
/// \file
/// Integers as files store them: of any width, signed or not, little-endian, aligned or not.
/// defines: io::IntegerColumn, io::with_integer_type

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read in place");

/// Whether elements are whole numbers; truths are 0 and 1.
constexpr bool is_integer(DType type) { return (type >= DType::I64 && type <= DType::U8) || type == DType::BOOL; }

/// Calls f(x) with a number of the type that stands for `type`.
/// \throws Error unless it is one of integers or truths
template <class F>
decltype(auto) with_integer_type(DType type, F&& f) {
  switch (type) {
    case DType::I64:
      return f(std::int64_t{});
    case DType::I32:
      return f(std::int32_t{});
    case DType::I16:
      return f(std::int16_t{});
    case DType::I8:
      return f(std::int8_t{});
    case DType::U64:
      return f(std::uint64_t{});
    case DType::U32:
      return f(std::uint32_t{});
    case DType::U16:
      return f(std::uint16_t{});
    case DType::U8:
    case DType::BOOL:
      return f(std::uint8_t{});
    default:
      throw Error("element type", name(type), "one of integers");
  }
}

/// `count` integers one behind the other in memory that somebody else holds.
struct IntegerColumn {
  const std::byte* data = nullptr;
  DType type = DType::U8;
  index_t count = 0;

  /// Places first to first + n as Out, which must hold them. The column must have so many.
  template <class Out>
  void copy(index_t first, index_t n, Out* out) const {
    each(first, n, [&](index_t i, auto x) { out[i - first] = static_cast<Out>(x); });
  }

  /// The first place whose value is not 0 to limit - 1; `count`: there is none.
  index_t first_outside(index_t limit) const {
    const auto is_outside = [bound = static_cast<std::uint64_t>(limit)](auto x) {
      return static_cast<std::uint64_t>(x) >= bound;  // also of what is negative
    };
    for (index_t begin = 0; begin < count; begin += piece) {
      const index_t n = std::min(piece, count - begin);
      index_t place = count, outside = 0;
      each(begin, n, [&](index_t, auto x) { outside += is_outside(x) ? 1 : 0; });
      if (outside == 0) continue;
      each(begin, n, [&](index_t i, auto x) { place = is_outside(x) ? std::min(place, i) : place; });
      return place;
    }
    return count;
  }

  /// The largest value, of those that index_t holds; 0 where there is none.
  index_t largest() const {
    index_t most = 0;
    each(0, count, [&](index_t, auto x) { most = std::max(most, static_cast<index_t>(x)); });
    return most;
  }
  /// The sum, which must not overflow.
  index_t sum() const {
    index_t all = 0;
    each(0, count, [&](index_t, auto x) { all += static_cast<index_t>(x); });
    return all;
  }

  /// The value at a place, as a decimal number.
  std::string text(index_t place) const {
    std::string out;
    each(place, 1, [&](index_t, auto x) { out = std::to_string(x); });
    return out;
  }

 private:
  static constexpr index_t piece = 4096;

  template <class F>
  void each(index_t first, index_t n, F&& f) const {
    with_integer_type(type, [&](auto x) {
      for (index_t i = first; i < first + n; ++i) {
        std::memcpy(&x, data + static_cast<std::size_t>(i) * sizeof(x), sizeof(x));
        f(i, x);
      }
    });
  }
};

}  // namespace K3SPEC_NAMESPACE::io
