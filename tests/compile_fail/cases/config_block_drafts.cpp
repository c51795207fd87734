// expect: config: block_size must be at least 2: a block is an anchor and what follows
// expect: config: num_draft_layers, num_target_layers and target_hidden_size must be positive
// expect: config: block drafts have Kimi K3's backbone only
// expect: config: sliding_window must be positive or none
// expect: config: markov_rank must not be negative; 0 is no Markov head
// expect: config: confidence_head_with_markov needs a Markov head, markov_rank > 0
#include <k3spec/config/check.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3TinyDFlash;
using k3spec::configs::KimiK3TinyDSpark;

struct NoBlock : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t block_size = 1;
#endif
};
struct NoLayers : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t num_draft_layers = 0;
#endif
};
struct OtherBackbone : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::Backbone backbone = k3spec::Backbone::deepseek_v3;
#endif
};
struct NoWindow : KimiK3TinyDSpark {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr std::optional<index_t> sliding_window = 0;
#endif
};
struct NegativeRank : KimiK3TinyDSpark {
  static constexpr bool confidence_head_with_markov = false;
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t markov_rank = -1;
#endif
};
struct NoMarkov : KimiK3TinyDSpark {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t markov_rank = 0;
#endif
};

template struct k3spec::CheckedDFlash<NoBlock>;
template struct k3spec::CheckedDFlash<NoLayers>;
template struct k3spec::CheckedDFlash<OtherBackbone>;
template struct k3spec::CheckedDSpark<NoWindow>;
template struct k3spec::CheckedDSpark<NegativeRank>;
template struct k3spec::CheckedDSpark<NoMarkov>;
