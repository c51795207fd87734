#pragma once
/// \file
/// How much work a loop must be for threads to be woken.
/// defines: cpu::for_work

#include <k3spec/core/device.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// The device for a loop of about `work` multiply-adds: one thread where waking others would take longer.
inline Cpu for_work(const Cpu& device, index_t work) { return work < (index_t{1} << 18) ? Cpu{1} : device; }

}  // namespace K3SPEC_NAMESPACE::cpu
