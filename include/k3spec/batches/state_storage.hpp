#pragma once
/// \file
/// How a target's states stand in a cache: in the type that a run has, or narrower.
/// defines: is_scaled, StateStorage

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/float8.hpp>
#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// Whether states of an element type have a scale each.
constexpr bool is_scaled(DType dtype) { return dtype == DType::F8_E4M3; }

/// States of a run's type T, each of as many numbers, kept as T, as bfloat16, or as float8_e4m3fn with a scale for each
/// state: of the numbers divided by it, as accumulate_t<T>, the largest is 448.
template <Element T>
class StateStorage {
  using A = accumulate_t<T>;

 public:
  /// How states are kept.
  /// \param dtype  that they are kept as: of T, or one of the two that are narrower
  /// \param width  numbers of a state
  StateStorage(DType dtype, index_t width) : dtype_(dtype), width_(width) {}

  /// Whether what is read is not what was stored, but rounded.
  bool narrow() const { return dtype_ != dtype_of<T>; }
  /// Of states without their scales.
  std::size_t bytes(index_t states) const { return static_cast<std::size_t>(states * width_) * size_of(dtype_); }

  /// The nearest bfloat16, of two that are equally near the even one.
  static bfloat16 nearest(T value) { return bfloat16(to_float(A(value))); }

  /// Writes states as they are kept.
  /// \param from    finite numbers where they are scaled, none beyond a float's
  /// \param to      room for bytes(states)
  /// \param scales  room for one each, where they are scaled
  void store(const T* from, index_t states, std::byte* to, float* scales) const {
    const index_t count = states * width_;
    if (!narrow()) {
      std::memcpy(to, from, bytes(states));
    } else if (!is_scaled(dtype_)) {
      std::transform(from, from + count, reinterpret_cast<bfloat16*>(to), nearest);
    } else {
      auto* const codes = reinterpret_cast<float8_e4m3fn*>(to);
      for (index_t s = 0; s < states; ++s) scales[s] = scale(from + s * width_, codes + s * width_);
    }
  }

  /// Reads what was stored, into a device's memory.
  /// \param from    bytes of as many states, placed as their type wants
  /// \param scales  of these, where they are scaled
  template <Device D>
  void load(const D& device, const std::byte* from, const float* scales, const Vector<element_t<D, T>>& to) const {
    using k3spec::upload;  // and a backend's own, found by the tag
    if (!narrow()) {
      upload(device, Vector<const T>(reinterpret_cast<const T*>(from), to.extent(0)), to);
      return;
    }
    constexpr index_t most = 1024;
    std::array<T, most> piece;  // a step allocates nothing
    for (index_t s = 0; s * width_ < to.extent(0); ++s) {
      for (index_t begin = 0; begin < width_; begin += most) {
        const index_t n = std::min(most, width_ - begin), at = s * width_ + begin;
        if (is_scaled(dtype_)) {
          widen(reinterpret_cast<const float8_e4m3fn*>(from) + at, n, A(scales[s]), piece.data());
        } else if constexpr (!std::is_same_v<T, bfloat16>) {
          std::copy_n(reinterpret_cast<const bfloat16*>(from) + at, n, piece.begin());
        }
        upload(device, Vector<const T>(piece.data(), n), Vector<element_t<D, T>>(to.data() + at, n));
      }
    }
  }

 private:
  /// \param state  one, whose codes are written
  /// \returns its scale, which is no denormal number
  float scale(const T* state, float8_e4m3fn* codes) const {
    A largest = 0;
    for (index_t i = 0; i < width_; ++i) largest = std::max(largest, std::abs(A(state[i])));
    const auto scale = std::max(static_cast<float>(largest / A(float8_e4m3fn::max)), std::numeric_limits<float>::min());
    for (index_t i = 0; i < width_; ++i) codes[i] = float8_e4m3fn(to_float(A(state[i]) / A(scale)));
    return scale;
  }
  static void widen(const float8_e4m3fn* codes, index_t count, A scale, T* to) {
    std::transform(codes, codes + count, to, [&](float8_e4m3fn code) { return T(A(float{code}) * scale); });
  }

  /// A float that rounds to the same narrower number: one that is cut off has its last bit set, so that it is no tie.
  static float to_float(A value) {
    const auto near = static_cast<float>(value);
    if constexpr (std::is_same_v<A, double>) {
      const auto back = static_cast<double>(near);
      if (back == value || value != value) return near;
      const auto bits = std::bit_cast<std::uint32_t>(near);
      const bool away = (back > value) == (value > 0);
      return std::bit_cast<float>((away ? bits - 1 : bits) | 1U);
    }
    return near;
  }

  DType dtype_;
  index_t width_;
};

}  // namespace K3SPEC_NAMESPACE
