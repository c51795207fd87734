// Attention of drafts in training on a card: the numbers of Cpu, whatever is seen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention_runs.hpp"

using namespace k3spec;
using namespace k3spec::test::attention;

namespace {

/// Documents of 1, 2, 5 and what is left, in every sequence.
std::vector<index_t> documents(index_t sequences, index_t length) {
  std::vector<index_t> starts;
  for (index_t s = 0; s < sequences; ++s) {
    for (index_t i = 0; i < length; ++i) starts.push_back(i < 1 ? 0 : i < 3 ? 1 : i < 8 ? 3 : 8);
  }
  return starts;
}

}  // namespace

TEST_CASE_TEMPLATE("attention of TTT steps on Cuda has Cpu's numbers", T, double, float, bfloat16) {
  check_ttt<Narrow, T>({2, 37, 3});
  check_ttt<Wide, T>({1, 70, 2});
}

TEST_CASE("attention of TTT steps on Cuda: one position, none, documents, padding, where gradients go") {
  check_ttt<Narrow, double>({3, 1, 2});
  check_ttt<Narrow, double>({0, 5, 2});
  check_ttt<Narrow, double>({2, 0, 2});
  check_ttt<Narrow, double>({2, 41, 2, documents(2, 41)});
  Pattern padded{2, 41, 2};
  for (index_t i = 0; i < 82; ++i)
    padded.attention_mask.push_back(i % 41 != 0 && i % 7 != 3);  // the first sees nothing
  check_ttt<Narrow, double>(padded);
  padded.into_q = padded.into_keys = Into::accumulate;
  check_ttt<Narrow, double>(padded);
  padded.into_q = Into::nothing;
  check_ttt<Narrow, double>(padded);
  padded.into_q = Into::overwrite, padded.into_keys = Into::nothing;
  check_ttt<Narrow, double>(padded);
}

TEST_CASE(
    "attention on Cuda: a query sees the keys of its document up to its own, and a NaN elsewhere changes nothing") {
  Pattern x{1, 41, 2, documents(1, 41)};
  x.attention_mask.assign(41, 1), x.attention_mask[20] = 0;
  const Results wanted = ttt<Narrow, double, Cuda>(x);
  constexpr index_t v = Narrow::count * Narrow::v, kv = Narrow::count * Narrow::kv;
  for (const index_t spoilt : {0, 2, 7, 12, 20, 40}) {
    CAPTURE(spoilt);
    x.spoilt = {spoilt};
    const Results found = ttt<Narrow, double, Cuda>(x);
    const auto differs = [&](std::size_t result, index_t row, index_t width) {
      return !std::equal(wanted[result].begin() + row * width, wanted[result].begin() + (row + 1) * width,
                         found[result].begin() + row * width);
    };
    for (index_t query = 0; query < 41; ++query) {
      CAPTURE(query);
      const auto begin = x.document_starts[static_cast<std::size_t>(query)];
      const bool seen = spoilt != 20 && begin <= spoilt && spoilt <= query;
      CHECK(differs(0, query, v) == seen);
      // A key's gradient is another only where a query that sees it sees the spoilt one, too.
      const auto key = query;
      bool shares = false;
      for (index_t i = std::max(key, spoilt); i < 41 && spoilt != 20 && key != 20; ++i) {
        const auto start = x.document_starts[static_cast<std::size_t>(i)];
        shares = shares || (start <= key && start <= spoilt);
      }
      CHECK(differs(3, key, kv) == shares);
    }
  }
}

TEST_CASE_TEMPLATE("attention of blocks on Cuda has Cpu's numbers", T, double, float, bfloat16) {
  check_blocks<Narrow, T>({2, 40, 5, {3, 17, 39, 0, 40, 8}});
  check_blocks<Wide, T>({1, 70, 3, {69, 2, 35}, {}, {}, 8, true});
}

TEST_CASE("attention of blocks on Cuda: no block, no context, blocks that are not kept, documents, windows") {
  check_blocks<Narrow, double>({2, 7, 3, {}});
  check_blocks<Narrow, double>({0, 7, 3, {}});
  check_blocks<Narrow, double>({1, 0, 3, {0}});
  check_blocks<Narrow, double>({2, 1, 1, {0, 1}});
  Blocks x{2, 41, 19, {12, 40, 3, 7, 20, 20}, {1, 0, 1, 1, 1, 0}, documents(2, 41), 8, true};
  check_blocks<Narrow, double>(x);
  x.into_q = x.into_context = x.into_noise = Into::accumulate, x.causal = false;
  check_blocks<Narrow, double>(x);
  x.into_context = Into::nothing;
  check_blocks<Narrow, double>(x);
  x.into_noise = Into::nothing;
  check_blocks<Narrow, double>(x);
  x.into_q = Into::nothing, x.into_context = Into::overwrite;
  check_blocks<Narrow, double>(x);
}

TEST_CASE(
    "attention of blocks on Cuda: an anchor that is no position is named when the host waits, and leads nowhere") {
  const Cuda cuda(test::small_workspaces);
  const BlockSpan span{2, 7, 2, 3};
  const auto check = [&](std::vector<index_t> anchors, std::vector<std::uint8_t> keep, std::vector<index_t> starts) {
    test::Mirror<index_t, Cuda> on_card(anchors), starts_there(starts);
    test::Mirror<std::uint8_t, Cuda> keep_there(keep);
    BlockVisibility visible{bare(on_card.vector().data())};
    if (!keep.empty()) visible.keep = bare(keep_there.vector().data());
    if (!starts.empty()) visible.document_starts = bare(starts_there.vector().data());
    require_anchors(cuda, visible, span);
    cuda.synchronize();
  };
  CHECK_NOTHROW(check({0, 7, 3, 6}, {}, {}));
  CHECK_THROWS_WITH_AS(check({0, 7, 8, 9}, {}, {}), doctest::Contains("row 2"), Error);
  CHECK_THROWS_WITH_AS(check({0, -1, 8, 9}, {}, {}), doctest::Contains("row 1"), Error);
  CHECK_NOTHROW(check({0, 99, 3, 6}, {1, 0, 1, 1}, {}));
  std::vector<index_t> starts(14, 0);
  CHECK_NOTHROW(check({0, 6, 3, 6}, {}, starts));
  CHECK_THROWS_WITH_AS(check({0, 7, 3, 6}, {}, starts), doctest::Contains("row 1"), Error);
  starts[7 + 3] = 4;
  CHECK_THROWS_WITH_AS(check({0, 6, 3, 6}, {}, starts), doctest::Contains("row 2"), Error);
  for (const index_t anchor : {index_t{-1}, index_t{1} << 40}) {
    Blocks x{1, 7, 3, {2, anchor}};
    const auto found = blocks<Narrow, double, Cuda>(x);
    x.keep = {1, 0};
    check_near<double>(found, blocks<Narrow, double, Cuda>(x));
  }
}
