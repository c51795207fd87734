// The EAGLE-3 reference cases in even sizes.
#include <tests/parity/eagle3_cases.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: eagle3_k3, even sizes", T, float, double, bfloat16) {
  test::eagle3_k3_cases<test::EvenCases, T>();
}
