// expect: MLA: num_key_value_heads must equal num_attention_heads
// expect: MLA: mla_use_nope = false is not K3
// expect: MLA: mla_use_nope = true is not DeepSeek-V3
// expect: MLA: mla_use_output_gate = true is not DeepSeek-V3
// expect: MLA: qk_rope_head_dim must be even
// expect: MLA: head counts and head and latent dims must be positive
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/layers/mla.hpp>

using k3spec::index_t;
using k3spec::configs::DeepSeekV3Tiny;
using k3spec::configs::KimiK3Tiny;

struct GroupedHeads : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t num_key_value_heads = 2;
#endif
};
struct Rotated : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = false;
#endif
};
struct NotRotated : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = true;
#endif
};
struct Gated : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_output_gate = true;
#endif
};
struct OddSlice : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t qk_rope_head_dim = 7;
#endif
};
struct NoLatent : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t qk_rope_head_dim = 0;
#endif
};
template struct k3spec::MLA<GroupedHeads>;
template struct k3spec::MLA<Rotated>;
template struct k3spec::MLA<NotRotated>;
template struct k3spec::MLA<Gated>;
template struct k3spec::MLA<OddSlice>;
template struct k3spec::MLA<NoLatent>;
