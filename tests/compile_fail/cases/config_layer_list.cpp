// expect: full_attn_layers must be one-based, ascending and within num_hidden_layers
#include <k3spec/config/check.hpp>

struct Mine : k3spec::configs::KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::index_t num_hidden_layers = 7;
#endif
};
[[maybe_unused]] constexpr k3spec::CheckedTarget<Mine> checked{};
