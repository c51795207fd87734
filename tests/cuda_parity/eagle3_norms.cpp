// The EAGLE-3 reference cases with one of EAGLE-3.1's two norms each on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: eagle3_k3_fc_norm and _norm_output, even and odd sizes", T, float, double,
                   bfloat16) {
  test::eagle3_norm_cases<test::EvenCases, T, Cuda>();
  test::eagle3_norm_cases<test::OddCases, T, Cuda>();
}
