#pragma once
/// \file
/// Device tags. The first argument of every op says where it runs and with which resources.
/// defines: Cpu, is_device, Device

#include <type_traits>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// The host's cores. `threads` never changes a result, only how long it takes.
struct Cpu {
  int threads = 1;
};

/// A backend says that its tag is one. It also brings evaluate, differentiate, gemm, upload and download with the tag
/// as first argument, and specialises Memory (core/memory.hpp). For each op that is no expression it brings the kernel
/// that the op's header names.
template <class D>
inline constexpr bool is_device = false;
template <>
inline constexpr bool is_device<Cpu> = true;

/// The tag of a device.
template <class D>
concept Device = is_device<std::remove_cvref_t<D>>;

}  // namespace K3SPEC_NAMESPACE
