// expect: BlockBackbone: this backbone is not implemented
// expect: config: block_size must be at least 2
// expect: config: num_draft_layers, num_target_layers and target_hidden_size must be positive
#include <k3spec/drafts/dflash_draft.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3TinyDFlash;

struct Other : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr k3spec::Backbone backbone = k3spec::Backbone::deepseek_v3;
#endif
};
struct BlockOfOne : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t block_size = 1;
#endif
};
struct NoLayers : KimiK3TinyDFlash {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t num_draft_layers = 0;
#endif
};
template struct k3spec::BlockBackbone<Other>;
template struct k3spec::BlockBackbone<BlockOfOne>;
template struct k3spec::BlockBackbone<NoLayers>;
