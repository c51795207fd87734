// expect: config: draft_vocab_size must be from 1 to vocab_size
#include <k3spec/drafts/eagle3_draft.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3Tiny;

struct TooMany : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t draft_vocab_size = vocab_size + 1;
#endif
};
struct None : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t draft_vocab_size = 0;
#endif
};
template struct k3spec::Eagle3Draft<TooMany>;
template struct k3spec::Eagle3Draft<None>;
