// The layer refuses what a config of its attention must not say: the sentences are config/check.hpp's.
// expect: CheckedAttention<GroupedHeads>
// expect: config: num_key_value_heads must equal num_attention_heads
// expect: CheckedPositions<Rotated>
// expect: config: mla_use_nope = false is not K3
#include <k3spec/layers/mla.hpp>

using k3spec::configs::KimiK3Tiny;

struct GroupedHeads : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::index_t num_key_value_heads = 2;
#endif
};
struct Rotated : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = false;
#endif
};
template struct k3spec::MLA<GroupedHeads>;
template struct k3spec::MLA<Rotated>;
