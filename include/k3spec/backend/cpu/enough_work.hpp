#pragma once
/// \file
/// How much work must be at hand for threads to be woken.
/// defines: cpu::for_work, cpu::loop_work, cpu::product_work, cpu::forward_work

#include <k3spec/core/device.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// Multiply-adds below which waking others would take longer than what they save: of a loop, of a matrix product, whose
/// threads each pack what they need, and of all products of a model's forward, or one layer's, which would wake them
/// for each.
inline constexpr index_t loop_work = index_t{1} << 18, product_work = index_t{1} << 19, forward_work = index_t{1} << 22;

/// The device for about `work` multiply-adds: one thread where they are fewer than `enough`.
inline Cpu for_work(const Cpu& device, index_t work, index_t enough = loop_work) {
  return work < enough ? Cpu{1} : device;
}

}  // namespace K3SPEC_NAMESPACE::cpu
