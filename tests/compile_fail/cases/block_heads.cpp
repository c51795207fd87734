// expect: MarkovHead: markov_rank must be positive
// expect: ConfidenceHead: confidence_head_with_markov needs a Markov head
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/markov_head.hpp>

using k3spec::index_t;
using k3spec::configs::KimiK3TinyDSpark;

struct Negative : KimiK3TinyDSpark {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t markov_rank = -1;
#endif
};
struct NothingToRead : KimiK3TinyDSpark {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t markov_rank = 0;
#endif
};
template struct k3spec::MarkovHead<Negative>;
template struct k3spec::ConfidenceHead<NothingToRead>;
