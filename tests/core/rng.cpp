#include <doctest/doctest.h>

#include <k3spec/core/rng.hpp>

using namespace k3spec;

// Known answers of the authors' Random123 distribution (philox4x32, 10 rounds).
static_assert(Philox(0).block(0) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(Philox(0xffffffffffffffff, 0xffffffffffffffff).block(0xffffffffffffffff) ==
              std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});

TEST_CASE("no kind of draw has a stream of another") {
  for (std::size_t i = 0; i < streams::all.size(); ++i) {
    CHECK((streams::all[i] & 0xffffffffU) == 0);  // so that the streams of 2^32 steps are its own
    for (std::size_t j = 0; j < i; ++j) CHECK(streams::all[i] != streams::all[j]);
  }
}

TEST_CASE("normal draws have mean 0 and variance 1") {
  const Philox random(7, 3);
  double sum = 0, squares = 0;
  constexpr int n = 20000;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / n) < 4 / std::sqrt(double{n}));
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2.0 / n));
}
