#include "target_cases.hpp"

using namespace k3spec;

TEST_CASE("the target equals the reference in double") { test::check_target_cases<test::Case, double>(); }
TEST_CASE("the target equals the reference in float") { test::check_target_cases<test::Case, float>(); }
