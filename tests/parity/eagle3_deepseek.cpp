// The EAGLE-3 reference cases with DeepSeek-V3's attention block.
#include <tests/parity/eagle3_bfloat16.hpp>

using namespace k3spec;

namespace {

template <class Cases>
struct NoQLora : Cases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
template <class Cases>
struct Stretched : Cases {
  static constexpr std::optional<Yarn> rope_scaling = test::yarn_of_cases;
};
template <class Cases>
struct V31 : Cases {
  static constexpr bool fc_norm = true, norm_output = true;
};

template <class Cases, class T>
void all() {
  test::eagle3_case<Cases, T>("eagle3_deepseek");
  test::eagle3_case<NoQLora<Cases>, T>("eagle3_deepseek_no_q_lora");
  test::eagle3_case<Stretched<Cases>, T>("eagle3_deepseek_yarn");
  test::eagle3_case<Cases, T>("eagle3_deepseek_packed");
  test::eagle3_case<Stretched<Cases>, T>("eagle3_deepseek_packed_yarn_lk_alpha");
  test::eagle3_case<V31<Cases>, T>("eagle3_deepseek_v3_1");
}

}  // namespace

TEST_CASE_TEMPLATE("reference: eagle3_deepseek, even and odd sizes", T, float, double, bfloat16) {
  all<test::DeepSeekEvenCases, T>();
  all<test::DeepSeekOddCases, T>();
}
