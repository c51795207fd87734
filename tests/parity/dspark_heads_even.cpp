// The DSpark reference cases of its other heads in even sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dspark's heads, even sizes", T, float, double) {
  test::dspark_head_cases<test::EvenCases, T>();
}
