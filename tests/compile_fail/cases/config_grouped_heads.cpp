// expect: num_key_value_heads must equal num_attention_heads
#include <k3spec/config/check.hpp>

struct Mine : k3spec::configs::KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::index_t num_key_value_heads = 2;
#endif
};
[[maybe_unused]] constexpr k3spec::CheckedEagle3<Mine> checked{};
