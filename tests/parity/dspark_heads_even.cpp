// The DSpark reference cases of its other heads in even sizes.
#include <tests/parity/dspark.hpp>

using namespace k3spec;
using Cases = test::EvenCases;

TEST_CASE_TEMPLATE("reference: dspark's heads, even sizes", T, float, double) {
  test::DSparkCase<test::DSparkGated<Cases>, T>("dspark_gated").run();
  test::DSparkCase<test::DSparkRnn<Cases>, T>("dspark_rnn").run();
  test::DSparkCase<test::DSparkTrainable<Cases>, T>("dspark_trainable_head").run();
}
