#pragma once
// Laws on a device whose memory the host cannot read: that they compile is the first of them, and their bits are Cpu's.
#include <tests/laws/check_laws.hpp>
#include <tests/support/far_device.hpp>

namespace k3spec::laws {

/// Outputs and all gradients have the bits that they have on Cpu.
template <class Law, class T>
void check_far(Shape shape) {
  Trial<Law, T> near(shape);
  Trial<Law, T, Far> far(shape);
  near.forward(), near.backward();
  far.forward(), far.backward();
  hold<Law, T>("the bits of Cpu", shape, compare_bits(far.results(), near.results(), "on Far"));
  hold<Law, T>("overwrites", shape, overwrites<Law, T, Far>(shape));
  hold<Law, T>("plan is exact", shape, plan_is_exact<Law, T, Far>(shape));
}

}  // namespace k3spec::laws
