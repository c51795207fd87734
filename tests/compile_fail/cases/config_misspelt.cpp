// A misspelt field: one error, which names it.
// expect: hidden_dim
// errors: 1
// lines: 12
// first: 15
#include <k3spec/config/change.hpp>
#include <k3spec/config/complete.hpp>

using k3spec::configs::KimiK3Tiny;

struct Mine : KimiK3Tiny {
  K3SPEC_CHANGE(KimiK3Tiny, hidden_size, 64);
  K3SPEC_CHANGE(KimiK3Tiny, target_hidden_size, 64);
  K3SPEC_CHANGE(KimiK3Tiny, rms_norm_eps, 1);
  K3SPEC_CHANGE(KimiK3Tiny, q_lora_rank, std::nullopt);
  K3SPEC_CHANGE(KimiK3Tiny, kv_lora_rank, 5);
  K3SPEC_CHANGE(KimiK3Tiny, full_attn_layers, std::array<k3spec::index_t, 3>{2, 4, 8});
#ifdef K3SPEC_EXPECT_FAIL
  K3SPEC_CHANGE(KimiK3Tiny, hidden_dim, 64);
#endif
};
static_assert(Mine::hidden_size == 64 && !Mine::q_lora_rank && Mine::full_attn_layers.size() == 3);
static_assert(k3spec::TargetFields<Mine> && k3spec::Eagle3Fields<Mine>);
