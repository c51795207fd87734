// The EAGLE-3 reference cases with DeepSeek-V3's attention block.
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: eagle3_deepseek, even and odd sizes", T, float, double, bfloat16) {
  test::eagle3_deepseek_cases<test::DeepSeekEvenCases, T>();
  test::eagle3_deepseek_cases<test::DeepSeekOddCases, T>();
}
