#pragma once
/// \file
/// Work that threads do as ranks.
/// defines: test::on_ranks

#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <k3spec/comm/threads.hpp>

namespace k3spec::test {

/// Calls work(communicator) on each of n ranks. \returns for each what it threw, empty where nothing
template <class F>
std::vector<std::string> on_ranks(index_t n, F&& work) {
  ThreadGroup group(n);
  std::vector<std::string> thrown(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (index_t r = 0; r < n; ++r) {
    threads.emplace_back([&, r, given = group.take(r)]() mutable {
      try {
        ThreadRank own = std::move(given);
        work(own);
      } catch (const std::exception& e) {
        thrown[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

/// What on_ranks returns where nothing went wrong.
inline std::vector<std::string> no_errors(index_t n) { return std::vector<std::string>(static_cast<std::size_t>(n)); }

}  // namespace k3spec::test
