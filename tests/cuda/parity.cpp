// The layers' reference cases on Cuda, with the tolerances of Cpu.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/parity/layers.hpp>

TEST_CASE_TEMPLATE("reference on Cuda: rms_norm, situ, situ_unbounded, situ_mlp, swiglu_mlp, adamw", T, float, double,
                   k3spec::bfloat16) {
  k3spec::parity::all<T, k3spec::Cuda>();
}
