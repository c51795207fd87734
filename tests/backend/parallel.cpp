#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

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

TEST_CASE("a loop in a loop runs where it is called") {
  std::atomic<int> calls = 0, elsewhere = 0;
  parallel_for(Cpu{3}, 8, [&](index_t) {
    const auto here = std::this_thread::get_id();
    parallel_for(Cpu{3}, 8, [&](index_t) { ++calls, elsewhere += std::this_thread::get_id() != here; });
  });
  CHECK(calls == 64);
  CHECK(elsewhere == 0);
}

TEST_CASE("several threads loop at once, each with helpers of its own, which end with it") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int n = 1; n < 200; ++n) {
        std::vector<int> seen(static_cast<std::size_t>(n));
        parallel_for(Cpu{1 + (n + t) % 4}, n, [&](index_t i) { seen[static_cast<std::size_t>(i)] = n; });
        for (const int x : seen) wrong += x != n;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a forked process has helpers of its own") {
  parallel_for(Cpu{2}, 8, [](index_t) {});
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    // Whoever comes first waits for the other, but not for ever.
    std::atomic<int> come = 0;
    std::array<std::thread::id, 2> who;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    parallel_for(Cpu{2}, 2, [&](index_t i) {
      who[static_cast<std::size_t>(i)] = std::this_thread::get_id();
      for (++come; come < 2 && std::chrono::steady_clock::now() < end;) std::this_thread::yield();
    });
    std::_Exit(who[0] != who[1] ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("threads that wait take no time from others") {
  const auto used = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };  // of all threads
  std::atomic<int> calls = 0;
  const double before = used();
  for (int i = 0; i < 50; ++i) {
    parallel_for(Cpu{2}, 2, [&](index_t) { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(calls == 100);
  CHECK(used() - before < 0.05);  // threads that look for work all the time use 0.1 s
}
