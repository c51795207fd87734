#include <atomic>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <k3spec/backend/cpu/parallel.hpp>

using namespace k3spec;

TEST_CASE("every index once, for any number of threads") {
  for (const int threads : {0, 1, 2, 5}) {
    for (const index_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count) + 1);
      parallel_for(Cpu{threads}, count, [&](index_t i) { ++calls[static_cast<std::size_t>(i)]; });
      for (index_t i = 0; i < count; ++i) REQUIRE(calls[static_cast<std::size_t>(i)] == 1);
      REQUIRE(calls.back() == 0);
    }
  }
}

TEST_CASE("an exception of a body comes out, whichever threads threw") {
  for (const int threads : {1, 2, 5}) {
    const auto one = [](index_t i) {
      if (i == 13) throw std::out_of_range("13");
    };
    CHECK_THROWS_WITH_AS(parallel_for(Cpu{threads}, 100, one), "13", std::out_of_range);
    const auto all = [](index_t) { throw std::out_of_range("any"); };
    CHECK_THROWS_AS(parallel_for(Cpu{threads}, 100, all), std::out_of_range);
    std::atomic<int> calls = 0;
    CHECK_NOTHROW(parallel_for(Cpu{threads}, 10, [&](index_t) { ++calls; }));  // and the next loop works
    CHECK(calls == 10);
  }
}
