// The layers' reference cases on Cpu, in even and odd sizes.
#include <doctest/doctest.h>

#include <tests/parity/layers.hpp>

TEST_CASE_TEMPLATE("reference: rms_norm, situ, situ_unbounded, situ_mlp, swiglu_mlp, adamw", T, float, double,
                   k3spec::bfloat16) {
  k3spec::parity::all<T, k3spec::Cpu>();
}
