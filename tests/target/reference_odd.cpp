#include "target_cases.hpp"

using namespace k3spec;

TEST_CASE("the target equals the reference in odd sizes") {
  test::check_target_cases<test::OddCase, double>();
  test::check_target_cases<test::OddCase, float>();
}
