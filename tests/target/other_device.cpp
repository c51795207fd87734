// The target on a device whose memory the host cannot read, so that nothing of the target's own runs on the host beside
// it.
#include <doctest/doctest.h>

#include <k3spec/target/forward.hpp>

#include "k3_tiny.hpp"
#include "tests/support/far_device.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Layout = KdaLayout<float, Config::kda_head_dim>;

namespace {

/// Elements in the memory of a device, from and to the host.
template <class D>
std::vector<float> downloaded(const D& device, const element_t<D, float>* from, index_t count) {
  std::vector<float> to(static_cast<std::size_t>(count));
  download(device, Vector<const element_t<D, float>>(from, count), Vector<float>(to.data(), count));
  return to;
}

/// Post-norm states and a tap of two sequences: a prompt, then some more tokens of which two stay, then one.
template <class D>
std::vector<float> run(const D& device) {
  using Target = FrozenTarget<Config, float, D>;
  const Target target(device, test::tiny<float>().parameters.weights());
  typename Target::State state({2, 64}, device);
  arena_t<D> arena(device, Target::scratch_bytes(2, 40));
  const std::vector<Tap> taps{{Tap::What::residual_mixture, 3}};
  std::vector<index_t> ids(80);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 32 + static_cast<index_t>(i * 37 % 90);
  std::vector<float> all;
  const auto keep = [&](const element_t<D, float>* from, index_t count) {
    const auto more = downloaded(device, from, count);
    all.insert(all.end(), more.begin(), more.end());
  };
  for (const index_t n : {40, 6, 1}) {
    buffer_t<D, float> last(device, 2 * n * Config::hidden_size), tapped(device, last.size());
    target.forward(device, state, Matrix<const index_t>(ids.data(), Extents<dyn, dyn>(2, n), 40),
                   {Matrix<element_t<D, float>>(last.data(), 2 * n, Config::hidden_size), taps,
                    Matrix<element_t<D, float>>(tapped.data(), 2 * n, Config::hidden_size)},
                   arena);
    state.accept(std::min<index_t>(n, n > 16 ? n : 2));
    keep(last.data(), last.size()), keep(tapped.data(), tapped.size());
  }
  state.settle(device);
  keep(state.kda(0, 1).recurrent, Layout::state_size);
  state.reset(1, device);
  keep(state.kda(0, 1).recurrent, 1);
  return all;
}

}  // namespace

TEST_CASE("the target runs on any device that has what its ops ask for") {
  index_t calls = 0;
  const auto far = run(Far{&calls});
  CHECK(test::same_bits(far, run(Cpu{1})));
  CHECK(far.back() == 0);                             // after a reset
  CHECK(calls > 3 * Config::num_hidden_layers * 20);  // three forwards
}
