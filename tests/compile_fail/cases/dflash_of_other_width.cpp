// expect: DFlashDraft: hidden_size must be target_hidden_size: embedding and head are the target's
#include <k3spec/decode/block_heads.hpp>

using k3spec::index_t;

struct Narrower : k3spec::configs::KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t hidden_size = 64;
#endif
};
static_assert(k3spec::BlockHeads<k3spec::DFlashDraft<Narrower>, float>::first_slot == 1);
