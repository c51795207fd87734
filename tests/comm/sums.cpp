// What objectives count is summed over ranks whole: no number is forgotten.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include <k3spec/comm/single.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/objectives/ttt_totals.hpp>

#include "tests/comm/ranks.hpp"

using namespace k3spec;

namespace {

TttTotals ttt_totals(index_t rank) {
  TttTotals totals;
  for (std::size_t k = 0; k < totals.supervised.size(); ++k) {
    totals.supervised[k] = 3 * rank + static_cast<index_t>(k), totals.alphas[k] = 0.1 * static_cast<double>(rank + 1);
  }
  return totals;
}

TttMetrics ttt_metrics(index_t rank) {
  TttMetrics sums(3);
  for (index_t k = 0; k < 3; ++k) sums[k] = {0.1 + static_cast<double>(rank), 2 + k, 3 + rank, 4, 5 + k, 0.7, 6 + k};
  return sums;
}

BlockMetrics<DFlashSums<3>> dflash(index_t rank) {
  const auto x = static_cast<double>(rank);
  return {{{0.1 + x, 0.2}, 3 + rank, 4, 5, 6, {{{x, 7}, {8, x}}}}};
}

BlockMetrics<DSparkSums<2>> dspark(index_t rank) {
  const double x = 0.1 + static_cast<double>(rank);
  DSparkSums<2> sums{
      {x, 2}, {x, 3}, {4, x}, {5, x}, {{{x, 6}, {x, 7}}}, {x, 8}, {9, x}, {x, 10}, {11, x}, {{{x, 12}, {13, x}}}, {}};
  sums.reliability.bins[0] = {rank, x, 14}, sums.reliability.bins[15] = {15, x, x};
  return {sums};
}

template <class Make>
void check_sum(Make make) {
  auto wanted = make(0);
  wanted += make(1), wanted += make(2);
  std::vector<decltype(wanted)> found(3, make(0));
  CHECK(test::on_ranks(3, [&](ThreadRank& comm) {
          auto& own = found[static_cast<std::size_t>(comm.rank())];
          own = make(comm.rank());
          sum(comm, own);
        }) == test::no_errors(3));
  const auto same = [](const auto& a, const auto& b) {
    if constexpr (requires { a.weight; }) {
      return a.weight == b.weight;
    } else if constexpr (requires { a.alphas; }) {
      return a.alphas == b.alphas && a.supervised == b.supervised;
    } else {
      return a == b;
    }
  };
  for (const auto& own : found) CHECK(same(own, wanted));
  Single single;
  auto own = make(1);
  sum(single, own);
  CHECK(same(own, make(1)));
}

/// One count, and as many doubles as are asked for.
struct Uneven {
  std::int64_t count = 1;
  std::array<double, 3> doubles{1, 1, 1};
  std::size_t used = 3;

  template <class V>
  void visit_sums(V&& v) {
    v(count);
    for (std::size_t i = 0; i < used; ++i) v(doubles[i]);
  }
};

}  // namespace

TEST_CASE("totals and metrics of all ranks are those that += makes of them") {
  check_sum(ttt_totals);
  check_sum([](index_t rank) { return BlockTotals{0.1 + static_cast<double>(rank)}; });
  check_sum(ttt_metrics);
  check_sum(dflash);
  check_sum(dspark);
}

TEST_CASE("objects of unequally many sums are no sum") {
  std::vector<TttMetrics> own{TttMetrics(2), TttMetrics(3)};
  const auto errors =
      test::on_ranks(2, [&](ThreadRank& comm) { sum(comm, own[static_cast<std::size_t>(comm.rank())]); });
  for (const auto& e : errors) CHECK(e == "sum over ranks: rank 1: found 15 counts, wanted 10 counts, as rank 0");
  // Nothing has changed, although the counts, summed first, are equally many.
  std::vector<Uneven> uneven(2);
  uneven[1].used = 2;
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) { sum(comm, uneven[static_cast<std::size_t>(comm.rank())]); }) ==
        std::vector<std::string>(2, "sum over ranks: rank 1: found 2 doubles, wanted 3 doubles, as rank 0"));
  for (const Uneven& one : uneven) {
    CHECK(one.count == 1);
    CHECK(one.doubles == std::array<double, 3>{1, 1, 1});
  }
}
