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

TEST_CASE("an instruction set has the name that compilers have for it") {
  const std::string_view set = instruction_set();
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  CHECK(set == "x86-64-v4 and more");
#elif defined(__AVX512VL__)
  CHECK(set == "x86-64-v4");
#elif defined(__AVX2__) && defined(__MOVBE__)
  CHECK(set == "x86-64-v3");
#elif defined(__x86_64__)
  CHECK(set.starts_with("x86-64"));
#elif defined(__aarch64__)
  CHECK(set.starts_with("aarch64"));
#endif
  // What only part of a processor family has is asked for, too: -march=native may use it.
  const auto asked = needed_cpu_features();
#if defined(__AVX512VNNI__)
  CHECK(std::any_of(asked.begin(), asked.end(), [](const CpuFeature& f) { return f.name == "avx512vnni"; }));
#else
  CHECK(std::none_of(asked.begin(), asked.end(), [](const CpuFeature& f) { return f.name == "avx512vnni"; }));
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
