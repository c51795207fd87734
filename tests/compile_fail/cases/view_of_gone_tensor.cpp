// expect: deleted
#include <k3spec/testing.hpp>

using namespace k3spec;

double first(const testing::Dump& dump) {
  const auto x = dump.read<double>("input.0");
  return x.as_rows<3>()(0, 0) + x.as<dyn, 3>()(0, 0);
}

#ifdef K3SPEC_EXPECT_FAIL
double gone(const testing::Dump& dump) {
  const auto rows = dump.read<double>("input.0").as_rows<3>();
  return rows(0, 0);
}
#endif
