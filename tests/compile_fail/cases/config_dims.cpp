// expect: NoHeads
// expect: NoNope
// expect: NoRope
// expect: NoValue
// expect: NoKvLatent
// expect: NoQueryLatent
// expect: config: head counts and head and latent dims must be positive
// expect: config: vocab_size, hidden_size and intermediate_size must be positive
#include <k3spec/config/check.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3Tiny;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t size = 0;
#else
constexpr index_t size = 4;
#endif

struct NoHeads : KimiK3Tiny {
  static constexpr index_t num_attention_heads = size, num_key_value_heads = size;
};
struct NoNope : KimiK3Tiny {
  static constexpr index_t qk_nope_head_dim = size;
};
struct NoRope : KimiK3Tiny {
  static constexpr index_t qk_rope_head_dim = size;
};
struct NoValue : KimiK3Tiny {
  static constexpr index_t v_head_dim = size;
};
struct NoKvLatent : KimiK3Tiny {
  static constexpr index_t kv_lora_rank = size;
};
struct NoQueryLatent : KimiK3Tiny {
  static constexpr std::optional<index_t> q_lora_rank = size;
};
struct NoMlp : KimiK3Tiny {
  static constexpr index_t intermediate_size = size;
};

template struct k3spec::CheckedEagle3<NoHeads>;
template struct k3spec::CheckedEagle3<NoNope>;
template struct k3spec::CheckedEagle3<NoRope>;
template struct k3spec::CheckedEagle3<NoValue>;
template struct k3spec::CheckedEagle3<NoKvLatent>;
template struct k3spec::CheckedEagle3<NoQueryLatent>;
template struct k3spec::CheckedEagle3<NoMlp>;
