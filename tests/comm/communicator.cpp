// What every communicator promises, of one rank and of threads.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <k3spec/comm/single.hpp>
#include <k3spec/comm/threads.hpp>
#include <k3spec/core/rng.hpp>

#include "tests/comm/ranks.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;
using Errors = std::vector<std::string>;

namespace {

/// A rank's numbers, of very different sizes: their sum's bits hang on the order.
template <class N>
std::vector<N> numbers(index_t rank, std::uint64_t round) {
  std::vector<N> all;
  for (std::uint64_t i = 0; i < 37; ++i) {
    const double x = Philox(round, static_cast<std::uint64_t>(rank)).normal(i);
    if constexpr (std::is_integral_v<N>) {
      all.push_back(static_cast<N>(x * 1e15));
    } else {
      all.push_back(static_cast<N>(i % 2 == 0 ? x : 1e6 * x * x * x));
    }
  }
  return all;
}

template <class N>
std::vector<N> sum_in_order(const std::vector<index_t>& ranks, std::uint64_t round) {
  std::vector<N> all = numbers<N>(ranks.front(), round);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const auto more = numbers<N>(ranks[r], round);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += more[i];
  }
  return all;
}

/// \tparam Span  whether the few or the many are summed
template <class N, bool Span, class C>
std::vector<N> summed(C& comm, std::uint64_t round) {
  std::vector<N> own = numbers<N>(comm.rank(), round);
  if constexpr (Span) {
    comm.sum(std::span<N>(own));
  } else {
    comm.sum(Cpu{}, Vector<N>(own.data(), static_cast<index_t>(own.size())));
  }
  return own;
}

template <class N, bool Span>
void sums_are_right() {
  constexpr std::uint64_t rounds = 50;
  for (const auto& ranks : std::vector<std::vector<index_t>>{{0}, {0, 1}, {0, 1, 2}}) {
    const auto n = static_cast<index_t>(ranks.size());
    std::vector<std::vector<std::vector<N>>> found(ranks.size());
    CHECK(test::on_ranks(n, [&](ThreadRank& comm) {
            for (std::uint64_t i = 0; i < rounds; ++i) {
              found[static_cast<std::size_t>(comm.rank())].push_back(summed<N, Span>(comm, i));
            }
          }) == test::no_errors(n));
    for (const auto& of_rank : found) {
      REQUIRE(of_rank.size() == rounds);
      for (std::uint64_t i = 0; i < rounds; ++i) CHECK(of_rank[i] == sum_in_order<N>(ranks, i));
    }
  }
  Single single;
  CHECK(summed<N, Span>(single, 3) == numbers<N>(0, 3));
}

}  // namespace

TEST_CASE("ranks have a place, and each has the sum of all, added in their order") {
  sums_are_right<double, true>();
  sums_are_right<std::int64_t, true>();
  sums_are_right<float, false>();
  sums_are_right<double, false>();
  CHECK(sum_in_order<double>({0, 1, 2}, 0) != sum_in_order<double>({1, 2, 0}, 0));  // the order is seen
  ThreadGroup group(3);
  const auto first = group.take(0), last = group.take(2);
  CHECK(first.rank() == 0);
  CHECK(last.rank() == 2);
  CHECK(last.size() == 3);
  CHECK(Single::rank() == 0);
  CHECK(Single::size() == 1);
}

TEST_CASE("nothing can be summed, too") {
  const auto nothing = [](auto& comm) {
    comm.sum(std::span<double>());
    comm.sum(std::span<std::int64_t>());
    comm.sum(Cpu{}, Vector<float>(nullptr, 0));
    comm.sum(Cpu{}, Vector<double>(nullptr, 0));
  };
  for (const index_t n : {1, 2, 3}) CHECK(test::on_ranks(n, nothing) == test::no_errors(n));
  Single single;
  nothing(single);
}

TEST_CASE("what is not equally much on all ranks is refused on all of them, and left as it was") {
  std::array<std::array<double, 4>, 3> x{{{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}};
  const auto before = x;
  Errors again;
  const auto work = [&](ThreadRank& comm) {
    auto& own = x[static_cast<std::size_t>(comm.rank())];
    comm.sum(std::span<double>(own.data(), comm.rank() == 1 ? 3 : 4));
  };
  const std::string unequal = "sum over ranks: rank 1: found 3 doubles, wanted 4 doubles, as rank 0";
  CHECK(test::on_ranks(3, work) == Errors(3, unequal));
  CHECK(x == before);
  // Nobody has left: the next sum is one.
  CHECK(test::on_ranks(3, [&](ThreadRank& comm) {
          CHECK_THROWS_WITH_AS(work(comm), unequal.c_str(), Error);
          comm.sum(std::span<double>(x[static_cast<std::size_t>(comm.rank())]));
        }) == test::no_errors(3));
  CHECK(x[1] == std::array<double, 4>{6, 6, 6, 6});
  CHECK(test::on_ranks(2, [](ThreadRank& comm) {
          double number = 1;
          std::int64_t count = 1;
          comm.rank() == 0 ? comm.sum(std::span(&count, 1)) : comm.sum(std::span(&number, 1));
        }) == Errors(2, "sum over ranks: rank 1: found 1 doubles, wanted 1 counts, as rank 0"));
}

TEST_CASE("a rank that throws, leaves, ends early or never comes wakes the others") {
  const std::string left = "sum over ranks: found rank 1 left, wanted all of them";
  for (const index_t n : {2, 3}) {
    const auto sums_without_1 = [&](auto&& of_1) {
      return test::on_ranks(n, [&](ThreadRank& comm) {
        double x = 1;
        comm.sum(std::span(&x, 1));
        if (comm.rank() == 1) return of_1(comm);
        comm.sum(std::span(&x, 1));
      });
    };
    Errors wanted(static_cast<std::size_t>(n), left);
    wanted[1] = "planned";
    CHECK(sums_without_1([](ThreadRank&) { throw std::runtime_error("planned"); }) == wanted);
    wanted[1] = "";
    CHECK(sums_without_1([](ThreadRank&) {}) == wanted);
    wanted[1] = left;
    CHECK(sums_without_1([](ThreadRank& comm) {
            comm.leave();
            comm.sum(std::span<double>());
          }) == wanted);
  }
  const auto alone = [] {
    ThreadGroup group(2);
    return group.take(0);
  };
  auto own = alone();
  CHECK_THROWS_WITH_AS(own.sum(std::span<double>()), left.c_str(), Error);
  // A communicator in whose place another one has come is gone as well.
  ThreadGroup two(2), one(1);
  auto stays = two.take(0), replaced = two.take(1);
  replaced = one.take(0);
  CHECK_THROWS_WITH_AS(stays.sum(std::span<double>()), left.c_str(), Error);
  double x = 3;
  replaced.sum(std::span(&x, 1));
  CHECK(x == 3);
  CHECK(replaced.size() == 1);
}

TEST_CASE("a rank is taken once, and a group has ranks") {
  CHECK_THROWS_WITH_AS(ThreadGroup(0), "ThreadGroup: ranks: found 0, wanted at least 1", Error);
  ThreadGroup group(2);
  auto first = group.take(0);
  CHECK_THROWS_WITH_AS(group.take(0), "ThreadGroup: rank 0: found taken before, wanted taken once", Error);
  CHECK_THROWS_WITH_AS(group.take(2), "ThreadGroup: rank: found 2, wanted 0 to 1", Error);
  CHECK_THROWS_WITH_AS(group.take(-1), "ThreadGroup: rank: found -1, wanted 0 to 1", Error);
  const auto moved = std::move(first);
  CHECK_THROWS_WITH_AS(first.sum(std::span<double>()), "communicator: found one that was moved away, wanted a rank's",
                       Error);
}
