#pragma once
/// \file
/// How a target's states stand in a cache: in the type that a run has, or narrower.
/// defines: StateStorage

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// States of a run's type T, kept as T or as bfloat16.
template <Element T>
class StateStorage {
 public:
  /// Of states that are kept so. \param dtype  of T, or bfloat16
  explicit StateStorage(DType dtype) : narrow_(dtype != dtype_of<T>) {}

  /// Whether what is read is not what was stored, but rounded.
  bool narrow() const { return narrow_; }
  std::size_t bytes(index_t count) const {
    return static_cast<std::size_t>(count) * (narrow_ ? sizeof(bfloat16) : sizeof(T));
  }

  /// The nearest bfloat16, of two that are equally near the even one.
  static bfloat16 nearest(T value) {
    if constexpr (std::is_same_v<T, double>) {
      return bfloat16(with_sticky_bit(value));
    } else {
      const float wide = value;
      return bfloat16(wide);
    }
  }

  /// Writes numbers as they are kept. \param to  room for bytes(count)
  void store(const T* from, index_t count, std::byte* to) const {
    if (!narrow_) {
      std::memcpy(to, from, bytes(count));
      return;
    }
    auto* const out = reinterpret_cast<bfloat16*>(to);
    std::transform(from, from + count, out, nearest);
  }

  /// Reads what was stored, into a device's memory.
  /// \param from  bytes of as many numbers, placed as their type wants
  template <Device D>
  void load(const D& device, const std::byte* from, const Vector<element_t<D, T>>& to) const {
    using k3spec::upload;  // and a backend's own, found by the tag
    if (!narrow_) {
      upload(device, Vector<const T>(reinterpret_cast<const T*>(from), to.extent(0)), to);
      return;
    }
    if constexpr (!std::is_same_v<T, bfloat16>) {
      const auto* const stored = reinterpret_cast<const bfloat16*>(from);
      constexpr index_t most = 1024;
      std::array<T, most> piece;  // a step allocates nothing
      for (index_t begin = 0; begin < to.extent(0); begin += most) {
        const index_t n = std::min(most, to.extent(0) - begin);
        std::copy_n(stored + begin, n, piece.begin());
        upload(device, Vector<const T>(piece.data(), n), Vector<element_t<D, T>>(to.data() + begin, n));
      }
    }
  }

 private:
  /// A float that rounds to the same bfloat16 as the number: one that is cut off has its last bit set, so that it is no
  /// tie.
  static float with_sticky_bit(double value) {
    const auto near = static_cast<float>(value);
    const auto back = static_cast<double>(near);
    if (back == value || value != value) return near;
    const auto bits = std::bit_cast<std::uint32_t>(near);
    const bool away = (back > value) == (value > 0);
    return std::bit_cast<float>((away ? bits - 1 : bits) | 1U);
  }

  bool narrow_;
};

}  // namespace K3SPEC_NAMESPACE
