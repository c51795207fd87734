#pragma once
/// \file
/// Packets: the lanes that the CPU's loops take at a time. nvcc allows no vector register in what could be device code,
/// as an expression's way through its tree could be; what it compiles has arrays for lanes. Their width and every bit
/// are the same, their types are two, so that one program may have translation units of both kinds.
/// defines: Packet, Mask

#if defined(__CUDACC__)
#include <k3spec/backend/cpu/packet_lanes.hpp>

namespace K3SPEC_NAMESPACE {

template <std::floating_point S>
using Packet = LanePacket<S>;
template <std::floating_point S>
using Mask = LaneMask<S>;

namespace detail {
inline constexpr index_t packet_registers = lane_registers;
}

}  // namespace K3SPEC_NAMESPACE
#else
#include <k3spec/backend/cpu/packet_across.hpp>
#include <k3spec/backend/cpu/packet_eigen.hpp>
#include <k3spec/backend/cpu/packet_math.hpp>
#endif
