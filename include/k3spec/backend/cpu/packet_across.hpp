#pragma once
/// \file
/// What goes across a packet's lanes, in an order that no width of registers changes.
/// defines: sum, maximum, transpose

#include <array>
#include <concepts>
#include <cstddef>

#include <k3spec/backend/cpu/packet_eigen.hpp>

// An intrinsic type as a template argument loses attributes that play no part here.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace K3SPEC_NAMESPACE {

/// All lanes added: lane i takes in lane i + width/2, then i + width/4, …
template <std::floating_point S>
S sum(Packet<S> x) {
  // Eigen's own sum has this order in registers of SSE and AVX, and its half of wider ones; in others it adds
  // neighbours.
  if constexpr (detail::predux_halves && sizeof(x.r) <= 32) {
    return detail::vec::predux(x.r);
  } else if constexpr (detail::predux_halves) {
    return detail::vec::predux(detail::vec::predux_half_dowto4(x.r));
  } else {
    auto lanes = x.lanes();
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }
}

/// The largest lane.
template <std::floating_point S>
S maximum(Packet<S> x) {
  return detail::vec::predux_max(x.r);
}

/// Turns a square of `width` packets: lane j of packet i becomes lane i of packet j.
template <std::floating_point S>
[[gnu::always_inline]] inline void transpose(std::array<Packet<S>, static_cast<std::size_t>(Packet<S>::width)>& rows) {
  detail::vec::PacketBlock<typename Packet<S>::Register, static_cast<int>(Packet<S>::width)> block;
  detail::unroll<static_cast<std::size_t>(Packet<S>::width)>([&](auto i) { block.packet[i] = rows[i].r; });
  detail::vec::ptranspose(block);
  detail::unroll<static_cast<std::size_t>(Packet<S>::width)>([&](auto i) { rows[i].r = block.packet[i]; });
}

}  // namespace K3SPEC_NAMESPACE

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
