#include <k3spec/core/permutation.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

using namespace k3spec;

namespace {

std::vector<std::uint64_t> order(std::uint64_t seed, std::uint64_t stream, std::uint64_t count) {
  const Permutation all(seed, stream, count);
  std::vector<std::uint64_t> out(count);
  for (std::uint64_t i = 0; i < count; ++i) out[i] = all(i);
  return out;
}

}  // namespace

TEST_CASE("an order of any number of things has each once") {
  for (std::uint64_t count = 1; count < 70; ++count) {
    auto found = order(3, 5, count);
    std::sort(found.begin(), found.end());
    std::vector<std::uint64_t> wanted(count);
    std::iota(wanted.begin(), wanted.end(), std::uint64_t{0});
    CHECK(found == wanted);
  }
  auto found = order(1, 0, 65537);
  std::sort(found.begin(), found.end());
  CHECK(std::unique(found.begin(), found.end()) == found.end());
  CHECK(found.back() == 65536);
}

TEST_CASE("orders differ between seeds and streams, and few things come in all orders") {
  CHECK(order(1, 0, 50) == order(1, 0, 50));
  CHECK(order(1, 0, 50) != order(2, 0, 50));
  CHECK(order(1, 0, 50) != order(1, 1, 50));
  std::set<std::vector<std::uint64_t>> of_three, of_five;
  for (std::uint64_t stream = 0; stream < 4000; ++stream) {
    of_three.insert(order(1, stream, 3)), of_five.insert(order(1, stream, 5));
  }
  CHECK(of_three.size() == 6);
  CHECK(of_five.size() == 120);
}

TEST_CASE("every place is as likely for everything") {
  constexpr std::uint64_t count = 10, streams = 20000;
  std::vector<int> at(count * count);
  for (std::uint64_t stream = 0; stream < streams; ++stream) {
    const auto found = order(9, stream, count);
    for (std::uint64_t i = 0; i < count; ++i) ++at[i * count + found[i]];
  }
  double chi_square = 0;
  for (const int n : at) chi_square += (n - 2000.0) * (n - 2000.0) / 2000.0;
  CHECK(chi_square < 130);  // 81 degrees of freedom: more with a chance of 0.0005
}

TEST_CASE("the largest numbers of things have an order, too, and nothing has none") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const Permutation all(1, 2, most);
  std::set<std::uint64_t> found;
  for (std::uint64_t i = 0; i < 100; ++i) found.insert(all(i * (most / 100)));
  CHECK(found.size() == 100);
  CHECK(*found.rbegin() > most / 2);
  CHECK_THROWS_WITH_AS(Permutation(1, 2, 0), "permutation: found nothing to order, wanted one thing or more", Error);
  CHECK_THROWS_WITH_AS(Permutation(1, 2, 5)(5), "permutation: place: found 5, wanted below 5", Error);
}
