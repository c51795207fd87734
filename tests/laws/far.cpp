// The laws on a device whose memory the host cannot read: that this compiles is the first of them. And its bits are
// Cpu's.
#include <doctest/doctest.h>

#include <tests/laws/check_laws.hpp>
#include <tests/laws/draft_laws.hpp>
#include <tests/laws/row_layers.hpp>
#include <tests/support/far_device.hpp>

using namespace k3spec;
using namespace k3spec::laws;

namespace {

/// Outputs and all gradients have the bits that they have on Cpu.
template <class Law, class T>
void check_far(Shape shape) {
  Trial<Law, T> near(shape);
  Trial<Law, T, Far> far(shape);
  near.forward(), near.backward();
  far.forward(), far.backward();
  hold("the bits of Cpu", shape, compare_bits(far.results(), near.results(), "on Far"));
  hold("overwrites", shape, overwrites<Law, T, Far>(shape));
  hold("plan is exact", shape, plan_is_exact<Law, T, Far>(shape));
}

}  // namespace

TEST_CASE("far: layers whose rows are alone") {
  check_far<LinearLaw<5, 3>, bfloat16>({2, 9});
  check_far<EmbeddingLaw<7>, float>({3, 5});
  check_far<RMSNormLaw<11>, double>({2, 17});
  check_far<MlpLaw<SiTUMLP<7, 13, Bounded>, 7>, bfloat16>({2, 9});
}

TEST_CASE("far: the EAGLE-3 draft's unroll") {
  check_far<UnrollLaw<Small>, double>({4, 5});
  check_far<UnrollLaw<Small31, Sequence::packed>, bfloat16>({3, 7});
  check_far<UnrollLaw<SmallDeepSeek31>, float>({3, 5});
}
