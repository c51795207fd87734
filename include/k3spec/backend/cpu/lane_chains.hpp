#pragma once
/// \file
/// Sums over elements that are taken a packet at a time, in an order that no instruction set changes: element i adds to
/// chain i mod C, where C numbers fill 64 bytes, however many of them a register holds; then chain c takes in chain
/// c + C/2, then c + C/4, … until chain 0 holds all. So a build for narrower registers has several, and the same bits.
/// defines: cpu::lane_chains, cpu::LaneChains, cpu::for_chains

#include <algorithm>
#include <array>
#include <cstddef>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// C
template <class S>
inline constexpr index_t lane_chains = 64 / static_cast<index_t>(sizeof(S));

/// One running sum for each of the C chains.
template <class S>
class LaneChains {
 public:
  using P = Packet<S>;
  static_assert(lane_chains<S> % P::width == 0, "a register wider than 64 bytes: chains cannot be its lanes");
  static constexpr std::size_t packets = static_cast<std::size_t>(lane_chains<S> / P::width);

  LaneChains() { sums_.fill(P(S(0))); }

  P& operator[](std::size_t packet) { return sums_[packet]; }

  S total() const {
    std::array<P, packets> sums = sums_;
    for (std::size_t half = packets / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
    }
    return sum(sums[0]);
  }

 private:
  std::array<P, packets> sums_;
};

/// Calls f(packet, j, m) for the elements [j, j + m) of n that one packet of chains takes in, j ascending; packet is a
/// constant, m the packet's width but for the last elements.
template <class S, class F>
void for_chains(index_t n, F&& f) {
  constexpr std::size_t packets = LaneChains<S>::packets;
  constexpr index_t width = Packet<S>::width;
  index_t j = 0;
  for (; j + lane_chains<S> <= n; j += lane_chains<S>) {
    detail::unroll<packets>([&](auto p) { f(p, j + static_cast<index_t>(p()) * width, width); });
  }
  detail::unroll<packets>([&](auto p) {
    const index_t at = j + static_cast<index_t>(p()) * width;
    if (at < n) f(p, at, std::min(width, n - at));
  });
}

}  // namespace K3SPEC_NAMESPACE::cpu
