// One error for each kind of draft, layer and target, however much is made of it.
// expect: hidden_size
// expect: activation_situ_beta
// expect: backbone
// errors: 8
// lines: 180
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/target/forward.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
struct Config {};
#else
struct Config : configs::Eagle3<configs::KimiK3TinyDSpark> {
  static constexpr index_t draft_vocab_size = 64;
};
#endif

Parameters<Eagle3Draft<Config>, float> eagle3;
Parameters<DFlashDraft<Config>, float> dflash;
Parameters<DSparkDraft<Config>, float> dspark;
Parameters<MLA<Config>, float> attention;
Parameters<MarkovHead<Config>, float> markov;
Parameters<ConfidenceHead<Config>, float> confidence;
[[maybe_unused]] constexpr auto activation = SiTU<Config>::formula();
Parameters<K3Target<Config>, float> target;
