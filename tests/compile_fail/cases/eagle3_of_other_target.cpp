// expect: TargetFeatures: target_hidden_size is not the target's hidden_size
// expect: TargetFeatures: vocab_size is not the target's, whose tokens the draft reads and says
// expect: its embedding cannot be the draft's: train_embeddings must be true
#include <k3spec/batches/target_features.hpp>
#include <k3spec/config/deepseek_v3.hpp>

using k3spec::index_t;

struct Narrower : k3spec::configs::DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t target_hidden_size = 64;
#endif
};
struct OfOtherWords : k3spec::configs::DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t vocab_size = 1000;
#endif
};
struct OfOtherWidth : k3spec::configs::DeepSeekV3Tiny {
  static constexpr index_t hidden_size = 64;
#ifndef K3SPEC_EXPECT_FAIL
  static constexpr bool train_embeddings = true;
#endif
};
static_assert(sizeof(k3spec::TargetFeatures<k3spec::configs::KimiK3Tiny, OfOtherWidth, float>) > 0);
static_assert(sizeof(k3spec::TargetFeatures<k3spec::configs::KimiK3Tiny, Narrower, float>) > 0);
static_assert(sizeof(k3spec::TargetFeatures<k3spec::configs::KimiK3Tiny, OfOtherWords, float>) > 0);
