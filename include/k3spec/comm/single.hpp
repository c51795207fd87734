#pragma once
/// \file
/// The communicator of one rank.
/// defines: Single

#include <cstdint>
#include <span>
#include <type_traits>

#include <k3spec/comm/communicator.hpp>

namespace K3SPEC_NAMESPACE {

/// There is one rank: its sums are its own numbers, on any device. Costs nothing.
struct Single {
  static constexpr index_t rank() { return 0; }
  static constexpr index_t size() { return 1; }
  static constexpr void sum(std::span<double>) {}
  static constexpr void sum(std::span<std::int64_t>) {}
  template <Device D, class S>
  static constexpr void sum(const D&, const Vector<S>&) {}
  static constexpr void leave() {}
};
static_assert(Communicator<Single> && std::is_empty_v<Single>);

}  // namespace K3SPEC_NAMESPACE
