// The DSpark reference cases in even sizes on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: dspark, even sizes", T, float, double) {
  test::dspark_cases<test::EvenCases, T, Cuda>();
  test::dspark_head_cases<test::EvenCases, T, Cuda>();
}
