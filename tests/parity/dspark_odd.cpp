// The DSpark reference cases in odd sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dspark, odd sizes", T, float, double) { test::dspark_cases<test::OddCases, T>(); }
