// expect: mla_use_nope = false is not K3
#include <k3spec/config/check.hpp>

struct Mine : k3spec::configs::KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = false;
#endif
};
[[maybe_unused]] constexpr k3spec::CheckedTarget<Mine> checked{};
