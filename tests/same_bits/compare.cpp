#include <doctest/doctest.h>

#include <tests/same_bits/bits.hpp>

TEST_CASE("trainings have the same bits whatever instruction set they are compiled for") {
  const BitsByName wanted = oldest().work();
  CHECK(wanted.size() == 2);
  for (const CompiledFor& other : {newer(), newest()}) {
    CAPTURE(other.name);
    if (!other.runs()) {
      MESSAGE("this processor cannot run ", other.name);
      continue;
    }
#if defined(__x86_64__)
    CHECK(other.name != oldest().name);
#endif
    for (const auto& [name, bits] : other.work()) {
      CAPTURE(name);
      CHECK(bits == wanted.at(name));
    }
  }
}
