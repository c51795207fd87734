// The target on a device that is not Cpu: one that hands all it is asked for to Cpu, so that nothing of the target's
// own runs on the host beside it.
#include <doctest/doctest.h>

#include <k3spec/target/forward.hpp>

#include "k3_tiny.hpp"
#include "tests/support/same_bits.hpp"

namespace K3SPEC_NAMESPACE {

namespace {

/// Counts what it is asked for.
struct Other {
  index_t* calls = nullptr;

  const Cpu& host() const {
    static const Cpu cpu{1};
    if (calls != nullptr) ++*calls;
    return cpu;
  }
};

/// Host memory in the name of another device.
template <class T>
struct OtherBuffer : Buffer<T> {
  OtherBuffer(const Other&, index_t count) : Buffer<T>(count) {}
};

#define K3SPEC_HAND_ON(function)                   \
  template <class... A>                            \
  void function(const Other& other, A&&... a) {    \
    function(other.host(), std::forward<A>(a)...); \
  }
K3SPEC_HAND_ON(evaluate)
K3SPEC_HAND_ON(gemm)
K3SPEC_HAND_ON(require_token_ids)
K3SPEC_HAND_ON(gather_rows_kernel)
K3SPEC_HAND_ON(attention_residual_kernel)
K3SPEC_HAND_ON(short_conv_kernel)
K3SPEC_HAND_ON(kda_recurrence_kernel)
K3SPEC_HAND_ON(latent_attention_kernel)
K3SPEC_HAND_ON(route_kernel)
K3SPEC_HAND_ON(require_expert_ids)
K3SPEC_HAND_ON(sort_by_expert_kernel)
K3SPEC_HAND_ON(require_groups)
K3SPEC_HAND_ON(grouped_gemm_kernel)
K3SPEC_HAND_ON(combine_experts_kernel)
#undef K3SPEC_HAND_ON

}  // namespace

template <>
inline constexpr bool is_device<Other> = true;
template <>
struct Memory<Other> {
  template <class T>
  using Buffer = OtherBuffer<T>;
  using Arena = BasicArena<OtherBuffer<std::byte>>;
};

}  // namespace K3SPEC_NAMESPACE

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Target = FrozenTarget<Config, float>;

namespace {

/// Post-norm states and a tap of two sequences: a prompt, then some more tokens of which two stay, then one.
template <class D>
std::vector<float> run(const D& device) {
  const Target& target = *test::tiny<float>().frozen;
  TargetState<Config, float, D> state({2, 64}, device);
  arena_t<D> arena(device, Target::scratch_bytes(2, 40));
  const std::vector<Tap> taps{{Tap::What::residual_mixture, 3}};
  std::vector<index_t> ids(80);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 32 + static_cast<index_t>(i * 37 % 90);
  std::vector<float> all;
  for (const index_t n : {40, 6, 1}) {
    std::vector<float> last(static_cast<std::size_t>(2 * n * Config::hidden_size)), tapped(last.size());
    target.forward(device, state, Matrix<const index_t>(ids.data(), 2, n),
                   {Matrix<float>(last.data(), 2 * n, Config::hidden_size), taps,
                    Matrix<float>(tapped.data(), 2 * n, Config::hidden_size)},
                   arena);
    state.accept(std::min<index_t>(n, n > 16 ? n : 2));
    all.insert(all.end(), last.begin(), last.end());
    all.insert(all.end(), tapped.begin(), tapped.end());
  }
  state.settle(device);
  const KdaMemory<float> kda = state.kda(0, 1);
  all.insert(all.end(), kda.recurrent, kda.recurrent + KdaLayout<float, Config::kda_head_dim>::state_size);
  state.reset(1, device);
  all.push_back(kda.recurrent[0]);
  return all;
}

}  // namespace

TEST_CASE("the target runs on any device that has what its ops ask for") {
  index_t calls = 0;
  CHECK(test::same_bits(run(Other{&calls}), run(Cpu{1})));
  CHECK(calls > 3 * Config::num_hidden_layers * 20);  // three forwards
}
