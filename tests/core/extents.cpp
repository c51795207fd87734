#include <doctest/doctest.h>

#include <k3spec/core/extents.hpp>

using namespace k3spec;

// All static: no memory, no arguments.
static_assert(std::is_empty_v<Extents<2, 3>> || sizeof(Extents<2, 3>) <= sizeof(index_t));
static_assert(Extents<2, 3, 4>().product() == 24);
static_assert(Extents<2, 3, 4>().product(1) == 12);
static_assert(Extents<2, 3, 4>().product(3) == 1);
static_assert(Extents<>().product() == 1 && Extents<>::rank == 0);
static_assert(Extents<5, 0, 4>().product() == 0);

// Mixed: one argument per dyn, in order.
static_assert(Extents<dyn, 3, dyn>::rank == 3 && Extents<dyn, 3, dyn>::dynamic_rank == 2);
static_assert(Extents<dyn, 3, dyn>(7, 5)[0] == 7 && Extents<dyn, 3, dyn>(7, 5)[1] == 3 &&
              Extents<dyn, 3, dyn>(7, 5)[2] == 5);
static_assert(Extents<3, dyn>(2).product() == 6);
static_assert(Extents<dyn>()[0] == 0);

// Nothing is guessed.
static_assert(!std::is_constructible_v<Extents<dyn, 3>, index_t, index_t>);
static_assert(!std::is_constructible_v<Extents<2, 3>, index_t>);
static_assert(!std::is_convertible_v<index_t, Extents<dyn>>);
static_assert(!std::is_constructible_v<Extents<dyn>, std::nullptr_t>);

TEST_CASE("extents given at run time, above 32 bits") {
  const index_t rows = index_t{163840} * 7168;
  CHECK(Extents<dyn, 4>(rows).product() == rows * 4);
}
