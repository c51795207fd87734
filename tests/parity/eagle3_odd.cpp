// The EAGLE-3 reference cases in odd sizes.
#include <tests/parity/eagle3_bfloat16.hpp>

using namespace k3spec;
using test::OddCases;

namespace {

struct NoQLora : OddCases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
struct NoGate : OddCases {
  static constexpr bool mla_use_output_gate = false;
};
struct V31 : OddCases {
  static constexpr bool fc_norm = true, norm_output = true;
};
struct FullVocabulary : OddCases {
  static constexpr index_t draft_vocab_size = 51;
};

}  // namespace

TEST_CASE_TEMPLATE("reference: eagle3_k3, odd sizes", T, float, double, bfloat16) {
  test::eagle3_case<OddCases, T>("eagle3_k3");
  test::eagle3_case<NoQLora, T>("eagle3_k3_no_q_lora");
  test::eagle3_case<NoGate, T>("eagle3_k3_no_gate");
  test::eagle3_case<V31, T>("eagle3_k3_v3_1");
  test::eagle3_case<FullVocabulary, T>("eagle3_k3_full_vocab");
  test::eagle3_case<OddCases, T>("eagle3_k3_packed");
  test::eagle3_case<OddCases, T>("eagle3_k3_packed_lk_lambda");
  test::eagle3_case<OddCases, T>("eagle3_k3_lk_alpha");
  test::eagle3_case<OddCases, T>("eagle3_k3_lk_lambda");
}
