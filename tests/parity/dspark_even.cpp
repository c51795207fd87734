// The DSpark reference cases in even sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;
using Cases = test::EvenCases;

TEST_CASE_TEMPLATE("reference: dspark, even sizes", T, float, double) {
  test::DSparkCase<test::DSparkPlain<Cases>, T>("dspark_plain").run();
  test::DSparkCase<test::DSparkCases<Cases>, T>("dspark_vanilla").run();
  test::DSparkCase<test::DSparkWithoutConfidence<Cases>, T>("dspark_packed").run();
}
