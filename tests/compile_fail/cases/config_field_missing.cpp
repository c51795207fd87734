// A field that is forgotten, and one of another type, in a training run and in decoding.
// expect: norm_output
// expect: q_lora_rank
// errors: 2
// lines: 50
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/run/eagle3_method.hpp>

using namespace k3spec;
using Target = configs::KimiK3Tiny;

/// All fields but one.
struct Forgotten : Target {
#ifdef K3SPEC_EXPECT_FAIL
 private:
  static constexpr bool norm_output = false;
#endif
};
struct OfOtherType : Target {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t q_lora_rank = 48;
#endif
};

template class k3spec::Trainer<Eagle3Method<Target, Forgotten, float>>;
template class k3spec::SpeculativeDecoder<Target, Eagle3Session<Eagle3Draft<OfOtherType>, float>>;
