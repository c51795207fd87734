// Attention on a card loads the tiles in which some query sees some key, and no other: counted where a host stands in,
// and on the host from the mask alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention_runs.hpp"

using namespace k3spec;
using namespace k3spec::test::attention;

namespace {

/// Tiles of rows of the other side, of all tiles of own rows. They begin at the first row that pairs with an own one by
/// `begins`; those in which no pair `sees` are left out.
template <class S, class Begins, class Sees>
index_t seen_tiles(index_t own, index_t other, Begins&& begins, Sees&& sees) {
  constexpr index_t height = cuda::AttentionTile<S>::own, width = cuda::warp;
  index_t tiles = 0;
  for (index_t top = 0; top < own; top += height) {
    const auto any = [&](index_t from, index_t to, auto&& pair) {
      for (index_t i = top; i < std::min(own, top + height); ++i) {
        for (index_t j = from; j < std::min(other, to); ++j) {
          if (pair(i, j)) return true;
        }
      }
      return false;
    };
    index_t left = 0;
    while (left < other && !any(left, left + 1, begins)) ++left;
    for (; left < other; left += width) tiles += any(left, left + width, sees) ? 1 : 0;
  }
  return tiles;
}
/// The same pairs, seen from the keys.
template <class F>
auto turned(F pair) {
  return [pair](index_t key, index_t query) { return pair(query, key); };
}

/// What a mask wants of each kernel, in all heads and sequences.
struct Tiles {
  index_t forward = 0, queries = 0, keys = 0;
};

template <class Heads, class S>
Tiles wanted_tiles(const Pattern& x) {
  Tiles all;
  for (index_t s = 0; s < x.sequences; ++s) {
    const auto at = [&](index_t i) { return static_cast<std::size_t>(s * x.length + i); };
    const auto may = [&](index_t query, index_t key) {
      return key <= query && (x.document_starts.empty() || key >= x.document_starts[at(query)]);
    };
    const auto sees = [&](index_t query, index_t key) {
      return may(query, key) && (x.attention_mask.empty() || x.attention_mask[at(key)] != 0);
    };
    const auto diagonal = [](index_t query, index_t key) { return query == key; };
    const index_t later = x.steps - 1, n = x.length;
    all.forward += seen_tiles<S>(n, n, may, sees) + later * seen_tiles<S>(n, n, diagonal, diagonal);
    all.keys += seen_tiles<S>(n, n, turned(may), turned(sees)) + later * seen_tiles<S>(n, n, diagonal, diagonal);
  }
  return {all.forward * Heads::count, all.forward * Heads::count, all.keys * Heads::count};
}

template <class Heads, class S>
Tiles wanted_tiles(const Blocks& x) {
  Tiles all;
  const index_t blocks = std::ssize(x.anchors) / x.sequences, queries = blocks * x.size;
  for (index_t s = 0; s < x.sequences; ++s) {
    const auto context = [&](index_t query, index_t key) {
      const auto block = static_cast<std::size_t>(s * blocks + query / x.size);
      const index_t anchor = x.anchors[block];
      if (!x.keep.empty() && x.keep[block] == 0) return false;
      if (!x.document_starts.empty() && key < x.document_starts[static_cast<std::size_t>(s * x.context + anchor)])
        return false;
      return key < anchor && (!x.window.has_value() || anchor + query % x.size - key < *x.window);
    };
    const auto noise = [&](index_t query, index_t key) {
      return query / x.size == key / x.size && (!x.causal || key <= query);
    };
    const auto block = [&](index_t query, index_t key) { return query / x.size == key / x.size; };
    const auto all_pairs = [](index_t, index_t) { return true; };  // anchors are in any order
    all.forward += seen_tiles<S>(queries, x.context, context, context);
    all.forward += seen_tiles<S>(queries, queries, noise, noise);
    all.keys += seen_tiles<S>(x.context, queries, all_pairs, turned(context));
    all.keys += seen_tiles<S>(queries, queries, turned(block), turned(noise));
  }
  return {all.forward * Heads::count, all.forward * Heads::count, all.keys * Heads::count};
}

/// run(into_q, into_keys) goes forward and backward. A kernel whose results nobody wants is not launched, but for that
/// of the queries, which that of the keys needs.
template <class F>
void check_counted(const Tiles& wanted, F&& run) {
  const auto counted = [&](Into into_q, Into into_keys) -> index_t {
    const long before = test::device_tiles();
    run(into_q, into_keys);
    return test::device_tiles() - before;
  };
  const index_t forward = counted(Into::nothing, Into::nothing), queries = counted(Into::overwrite, Into::nothing),
                all = counted(Into::overwrite, Into::overwrite);
  if (!test::stands_in) return;
  CHECK(forward == wanted.forward);
  CHECK(queries - forward == wanted.queries);
  CHECK(all - queries == wanted.keys);
}

template <class T>
void check_tiles(Pattern x) {
  check_counted(wanted_tiles<Narrow, accumulate_t<T>>(x), [&](Into into_q, Into into_keys) {
    x.into_q = into_q, x.into_keys = into_keys;
    ttt<Narrow, T, Cuda>(x);
  });
  check_ttt<Narrow, T>(x);
}
template <class T>
void check_tiles(Blocks x) {
  check_counted(wanted_tiles<Narrow, accumulate_t<T>>(x), [&](Into into_q, Into into_keys) {
    x.into_q = into_q, x.into_context = x.into_noise = into_keys;
    blocks<Narrow, T, Cuda>(x);
  });
  check_blocks<Narrow, T>(x);
}

/// Documents of `size`, and what is left, in every sequence.
std::vector<index_t> documents_of(index_t size, index_t sequences, index_t length) {
  std::vector<index_t> starts;
  for (index_t s = 0; s < sequences; ++s) {
    for (index_t i = 0; i < length; ++i) starts.push_back(i / size * size);
  }
  return starts;
}

}  // namespace

TEST_CASE("attention on Cuda loads the tiles that somebody sees: causal steps") {
  CHECK(wanted_tiles<Narrow, float>(Pattern{1, 64, 2}).forward == 3 * (6 + 4));
  CHECK(wanted_tiles<Narrow, float>(Pattern{1, 64, 2}).keys == 3 * (2 + 2 + 1 + 1 + 4));
  check_tiles<float>(Pattern{2, 107, 3});
  check_tiles<double>(Pattern{1, 75, 2});
}

TEST_CASE("attention on Cuda loads the tiles that somebody sees: documents of 150") {
  check_tiles<float>(Pattern{1, 333, 2, documents_of(150, 1, 333)});
}

TEST_CASE("attention on Cuda loads the tiles that somebody sees: padding longer than a tile") {
  Pattern x{1, 171, 1};
  for (index_t i = 0; i < x.length; ++i) x.attention_mask.push_back(i > 2 && (i < 30 || i > 105) && i % 5 != 3);
  check_tiles<float>(x);
}

TEST_CASE("attention on Cuda loads the tiles that somebody sees: blocks, whose anchors are in any order") {
  check_tiles<float>(Blocks{1, 170, 16, {3, 169, 80}});
  check_tiles<float>(Blocks{2, 131, 7, {130, 2, 77, 131, 0, 20, 64, 33}, {1, 1, 0, 1, 1, 1, 1, 1}, {}, {}, true});
}

TEST_CASE("attention on Cuda loads the tiles that somebody sees: blocks in a window of 8") {
  check_tiles<float>(Blocks{1, 301, 5, {300, 2, 77, 150, 151, 20, 210}, {}, {}, 8});
  check_tiles<double>(Blocks{1, 201, 5, {200, 2, 77, 150, 151}, {}, documents_of(150, 1, 201), 8, true});
}
