#include <algorithm>

#include <doctest/doctest.h>

#include <k3spec/backend/cpu/cpu_check.hpp>

using namespace k3spec;

TEST_CASE("the processor that runs the tests is the one they were built for") {
  CHECK_NOTHROW(require_cpu_features());
#if defined(__AVX2__)
  const auto needed = needed_cpu_features();
  CHECK(std::any_of(needed.begin(), needed.end(), [](const CpuFeature& f) { return f.name == "avx2"; }));
#endif
}

TEST_CASE("missing features are named") {
  const std::vector<CpuFeature> none, all{{"avx2", true}, {"fma", true}};
  CHECK_NOTHROW(require_cpu_features(none));
  CHECK_NOTHROW(require_cpu_features(all));
  const std::vector<CpuFeature> some{{"avx2", true}, {"fma", false}, {"avx512f", false}};
  CHECK_THROWS_WITH_AS(
      require_cpu_features(some),
      "processor: found no fma, no avx512f, wanted avx2, fma, avx512f, which this program was built for "
      "(K3SPEC_MARCH chooses)",
      Error);
}
