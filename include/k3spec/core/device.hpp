#pragma once
/// \file
/// Device tags. The first argument of every op says where it runs and with which resources.
/// defines: Cpu, Device

#include <concepts>
#include <type_traits>

namespace k3spec {

/// The host's cores. `threads` never changes a result, only how long it takes.
struct Cpu {
  int threads = 1;
};

template <class D>
inline constexpr bool is_device = std::same_as<std::remove_cvref_t<D>, Cpu>;

template <class D>
concept Device = is_device<D>;

}  // namespace k3spec
