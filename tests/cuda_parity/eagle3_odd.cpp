// The EAGLE-3 reference cases in odd sizes on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: eagle3_k3, odd sizes", T, float, double, bfloat16) {
  test::eagle3_k3_cases<test::OddCases, T, Cuda>();
}
