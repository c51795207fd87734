// The DSpark reference cases in odd sizes on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: dspark, odd sizes", T, float, double) {
  test::dspark_cases<test::OddCases, T, Cuda>();
  test::dspark_head_cases<test::OddCases, T, Cuda>();
}
