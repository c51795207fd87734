#pragma once
/// \file
/// Shapes whose extents are known when compiling, when running, or a mix (`dyn`).
/// defines: index_t, ceil_div, dyn, Extents

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

using index_t = std::int64_t;

/// How many pieces of b there are in a, the last perhaps smaller; neither is negative.
K3SPEC_HOST_DEVICE constexpr index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }

/// Marks an extent given at run time.
inline constexpr index_t dyn = -1;

/// The extents of a tensor, row-major; those that are `dyn` are given at run time.
template <index_t... E>
class Extents {
  static_assert(((E >= 0 || E == dyn) && ...), "an extent is either >= 0 or dyn");

 public:
  static constexpr std::size_t rank = sizeof...(E);
  static constexpr std::size_t dynamic_rank = (std::size_t{E == dyn} + ... + 0);
  static constexpr std::array<index_t, rank> statics{E...};

  /// All static extents; run-time ones are 0.
  constexpr Extents() = default;

  /// One argument per `dyn`, in order.
  template <std::convertible_to<index_t>... I>
    requires(sizeof...(I) == dynamic_rank && dynamic_rank > 0)
  K3SPEC_HOST_DEVICE constexpr explicit Extents(I... sizes) : dynamic_{static_cast<index_t>(sizes)...} {}

  K3SPEC_HOST_DEVICE constexpr index_t operator[](std::size_t axis) const {
    constexpr std::array<index_t, rank> fixed{E...};
    if (fixed[axis] != dyn) return fixed[axis];
    std::size_t slot = 0;
    for (std::size_t i = 0; i < axis; ++i) slot += std::size_t{fixed[i] == dyn};
    return dynamic_[slot];
  }

  /// Product of the extents from `first` on; 1 past the end.
  K3SPEC_HOST_DEVICE constexpr index_t product(std::size_t first = 0) const {
    index_t p = 1;
    for (std::size_t i = first; i < rank; ++i) p *= (*this)[i];
    return p;
  }

 private:
  std::array<index_t, dynamic_rank> dynamic_{};
};

}  // namespace K3SPEC_NAMESPACE
