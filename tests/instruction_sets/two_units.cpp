#include <doctest/doctest.h>

#include <tests/instruction_sets/unit.hpp>

TEST_CASE("two units of one program, compiled for two instruction sets, each have their own copy of k3spec") {
#if defined(__x86_64__)
  const SeenByUnit oldest = seen_by_oldest(), newer = seen_by_newer();
  CHECK(oldest.set == "x86-64");
  CHECK(newer.set == "x86-64-v3");
  CHECK(oldest.features.empty());
  CHECK(newer.features == std::vector<std::string>{"avx2", "fma", "bmi2"});
  CHECK(oldest.function != newer.function);
#else
  CHECK(seen_by_oldest().function != nullptr);
#endif
}
