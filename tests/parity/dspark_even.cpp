// The DSpark reference cases in even sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dspark, even sizes", T, float, double) { test::dspark_cases<test::EvenCases, T>(); }
