// The EAGLE-3 reference cases with DeepSeek-V3's attention block on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: eagle3_deepseek, even and odd sizes", T, float, double, bfloat16) {
  test::eagle3_deepseek_cases<test::DeepSeekEvenCases, T, Cuda>();
  test::eagle3_deepseek_cases<test::DeepSeekOddCases, T, Cuda>();
}
