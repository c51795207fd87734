// The EAGLE-3 reference cases in even sizes.
#include <tests/parity/eagle3_bfloat16.hpp>

using namespace k3spec;
using test::EvenCases;

namespace {

struct NoQLora : EvenCases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
struct NoGate : EvenCases {
  static constexpr bool mla_use_output_gate = false;
};
struct V31 : EvenCases {
  static constexpr bool fc_norm = true, norm_output = true;
};
struct FullVocabulary : EvenCases {
  static constexpr index_t draft_vocab_size = 64;
};

}  // namespace

TEST_CASE_TEMPLATE("reference: eagle3_k3, even sizes", T, float, double, bfloat16) {
  test::eagle3_case<EvenCases, T>("eagle3_k3");
  test::eagle3_case<NoQLora, T>("eagle3_k3_no_q_lora");
  test::eagle3_case<NoGate, T>("eagle3_k3_no_gate");
  test::eagle3_case<V31, T>("eagle3_k3_v3_1");
  test::eagle3_case<FullVocabulary, T>("eagle3_k3_full_vocab");
  test::eagle3_case<EvenCases, T>("eagle3_k3_packed");
  test::eagle3_case<EvenCases, T>("eagle3_k3_packed_lk_lambda");
  test::eagle3_case<EvenCases, T>("eagle3_k3_lk_alpha");
  test::eagle3_case<EvenCases, T>("eagle3_k3_lk_lambda");
}
