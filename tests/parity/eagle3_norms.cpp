// The EAGLE-3 reference cases with one of EAGLE-3.1's two norms each.
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: eagle3_k3_fc_norm and _norm_output, even and odd sizes", T, float, double, bfloat16) {
  test::eagle3_norm_cases<test::EvenCases, T>();
  test::eagle3_norm_cases<test::OddCases, T>();
}
