// expect: config: num_hidden_layers must be at least 1
// expect: config: routed_scaling_factor must be positive and finite
// expect: CheckedTarget<NoScale>
// expect: CheckedTarget<NegativeScale>
// expect: CheckedTarget<InfiniteScale>
// expect: CheckedTarget<NoNumber>
#include <limits>

#include <k3spec/config/check.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3Tiny;
using Limits = std::numeric_limits<double>;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t layers = 0;
constexpr double none = 0, negative = -1, infinite = Limits::infinity(), nan = Limits::quiet_NaN();
#else
constexpr index_t layers = 1;
constexpr double none = 1e-300, negative = 1, infinite = Limits::max(), nan = 2.5;
#endif

struct NoLayers : KimiK3Tiny {
  static constexpr index_t num_hidden_layers = layers;
  static constexpr std::array<index_t, 0> full_attn_layers{};
};
struct NoScale : KimiK3Tiny {
  static constexpr double routed_scaling_factor = none;
};
struct NegativeScale : KimiK3Tiny {
  static constexpr double routed_scaling_factor = negative;
};
struct InfiniteScale : KimiK3Tiny {
  static constexpr double routed_scaling_factor = infinite;
};
struct NoNumber : KimiK3Tiny {
  static constexpr double routed_scaling_factor = nan;
};

template struct k3spec::CheckedTarget<NoLayers>;
template struct k3spec::CheckedTarget<NoScale>;
template struct k3spec::CheckedTarget<NegativeScale>;
template struct k3spec::CheckedTarget<InfiniteScale>;
template struct k3spec::CheckedTarget<NoNumber>;
