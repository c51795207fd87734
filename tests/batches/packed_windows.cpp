#include <k3spec/batches/packed_windows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <k3spec/core/rng.hpp>

using namespace k3spec;

namespace {

PackedWindows pack(const std::vector<index_t>& lengths, index_t length) {
  std::vector<index_t> ends(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
  return PackedWindows(ends, length);
}

/// "0+10 13+3 | 16+1": pieces by where they begin, and their lengths.
std::string shown(const PackedWindows& packed) {
  std::string text;
  for (index_t w = 0; w < packed.windows(); ++w) {
    text += w == 0 ? "" : " |";
    for (const auto& piece : packed.pieces(w)) {
      text += (text.empty() ? "" : " ") + std::to_string(piece.begin) + "+" + std::to_string(piece.length);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("documents are packed by best fit, the longest first") {
  CHECK(shown(pack({10}, 10)) == "0+10");
  CHECK(shown(pack({1}, 10)) == "0+1");
  CHECK(shown(pack({1, 1, 1}, 2)) == "0+1 1+1 | 2+1");
  // 7 opens a window, 6 another; 4 goes to the 6, which it fills; 3 to the 7; 2 and 1 open the last.
  CHECK(shown(pack({3, 7, 2, 6, 4, 1}, 10)) == "3+7 0+3 | 12+6 18+4 | 10+2 22+1");
  // 8, 7, then 2 to the 8, the fullest with room for it; first fit would say so, too, but not of 3: only the 7 has
  // room.
  CHECK(shown(pack({7, 8, 3, 2}, 10)) == "7+8 18+2 | 0+7 15+3");
  // Best fit, not first fit: 1 goes to the 6 + 3, which has room for just that, not to the 7 before it.
  CHECK(shown(pack({7, 6, 6, 3, 1}, 10)) == "0+7 19+3 | 7+6 22+1 | 13+6");
  // Equal ones as they come, into the window that was opened first.
  CHECK(shown(pack({5, 5, 5, 5}, 10)) == "0+5 5+5 | 10+5 15+5");
}

TEST_CASE("what is longer than a window is cut, and what is empty left out") {
  const auto packed = pack({0, 25, 0, 4, 10, 20, 0}, 10);
  CHECK(shown(packed) == "0+10 | 10+10 | 29+10 | 39+10 | 49+10 | 20+5 25+4");
  CHECK(packed.counts().whole == 2);
  CHECK(packed.counts().cut == 2);
  CHECK(packed.counts().empty == 3);
  CHECK(packed.counts().tokens == 59);
  CHECK(packed.counts().padding == 1);
  CHECK(pack({}, 5).windows() == 0);
  CHECK(pack({0, 0}, 5).windows() == 0);
  CHECK(pack({7}, 1).windows() == 7);
  CHECK_THROWS_WITH_AS(pack({3}, 0), "packed windows: length: found 0, wanted at least 1", Error);
  CHECK_THROWS_WITH_AS(packed.pieces(6), "packed windows: window: found 6, wanted 0 to 5", Error);
  CHECK_THROWS_AS(packed.pieces(-1), Error);
}

TEST_CASE("every token is in one window, once, and no window has more than it holds") {
  for (const index_t length : {1, 2, 7, 32, 100}) {
    std::vector<index_t> lengths;
    for (std::uint64_t i = 0; i < 300; ++i) lengths.push_back(static_cast<index_t>(Philox(7).below(i, 50)));
    const auto packed = pack(lengths, length);
    const index_t all = std::accumulate(lengths.begin(), lengths.end(), index_t{0});
    std::vector<int> seen(static_cast<std::size_t>(all));
    index_t padding = 0;
    for (index_t w = 0; w < packed.windows(); ++w) {
      index_t tokens = 0;
      for (const auto& piece : packed.pieces(w)) {
        tokens += piece.length;
        for (index_t t = 0; t < piece.length; ++t) ++seen[static_cast<std::size_t>(piece.begin + t)];
      }
      CHECK(tokens > 0);
      CHECK(tokens <= length);
      padding += length - tokens;
    }
    CHECK(seen == std::vector<int>(seen.size(), 1));
    CHECK(packed.counts().padding == padding);
    CHECK(packed.counts().tokens == all);
    if (length == 100) CHECK(packed.windows() == (all + 99) / 100);  // many short ones leave no hole
  }
}
