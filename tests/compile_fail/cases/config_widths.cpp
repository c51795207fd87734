// hidden_size is changed, target_hidden_size forgotten.
// expect: config: hidden_size must be target_hidden_size, or train_embeddings true
// expect: DFlashDraft: hidden_size must be target_hidden_size: embedding and head are the target's
// expect: DSparkDraft: hidden_size must be target_hidden_size, or train_embeddings true
#include <k3spec/config/check.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>

using k3spec::index_t;

template <class Preset>
struct Narrower : Preset {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t hidden_size = 64;
#else
  static constexpr index_t hidden_size = 64, target_hidden_size = hidden_size;
#endif
};
template struct k3spec::CheckedEagle3<Narrower<k3spec::configs::KimiK3Tiny>>;
template struct k3spec::DFlashDraft<Narrower<k3spec::configs::KimiK3TinyDFlash>>;
template struct k3spec::DSparkDraft<Narrower<k3spec::configs::KimiK3TinyDSpark>>;
