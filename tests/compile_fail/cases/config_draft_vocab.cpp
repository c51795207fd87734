// expect: draft_vocab_size must be from 1 to vocab_size
#include <k3spec/config/check.hpp>

struct Mine : k3spec::configs::KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::index_t draft_vocab_size = 261;
#endif
};
[[maybe_unused]] constexpr k3spec::CheckedEagle3<Mine> checked{};
