// The DFlash reference cases in odd sizes on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/dflash.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference on Cuda: dflash, odd sizes", T, float, double) {
  test::dflash_cases<test::OddCases, T, Cuda>();
}
