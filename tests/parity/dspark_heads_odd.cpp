// The DSpark reference cases of its other heads in odd sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dspark's heads, odd sizes", T, float, double) {
  test::dspark_head_cases<test::OddCases, T>();
}
