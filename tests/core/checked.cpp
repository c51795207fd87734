#include <doctest/doctest.h>

#include <k3spec/core/checked.hpp>

using namespace k3spec;

TEST_CASE("products of sizes: up to 2^62, of factors that are none too, as a constant and at run time") {
  constexpr index_t half = index_t{1} << 31, most = index_t{1} << 62;
  static_assert(checked_product(half, half) == most);
  static_assert(checked_product(3, 5, 7) == 105);
  CHECK(checked_product(most) == most);
  CHECK(checked_product(most, 1) == most);
  CHECK(checked_product(most, 0) == 0);
  CHECK(checked_product(0, most, most) == 0);
  CHECK(checked_product(most - 1, 1) == most - 1);
  const char* const wanted = "wanted factors of at least 0 and a product of at most 2^62";
  CHECK_THROWS_WITH_AS(checked_product(most, 2), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(most + 1), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(half + 1, half), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(3, most / 2), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(most, 2, 0),
                       "size: found 4611686018427387904 x 2 x 0, wanted factors of at least "
                       "0 and a product of at most 2^62",
                       Error);
  CHECK_THROWS_WITH_AS(checked_product(-1, 2), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(2, -1), doctest::Contains(wanted), Error);
  CHECK_THROWS_WITH_AS(checked_product(0, -1), doctest::Contains(wanted), Error);
}
