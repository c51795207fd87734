#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

using namespace k3spec;

namespace {

template <class From, class To>
constexpr bool converts = std::is_convertible_v<From, To>;
template <class V>
concept HasColumns = requires(V v) {
  v.columns(index_t{}, index_t{});
};

// Adding const and forgetting static extents is safe; nothing else is.
static_assert(converts<View<float, 2, 3>, View<const float, 2, 3>>);
static_assert(converts<View<float, 2, 3>, Rows<float, 3>>);
static_assert(converts<Rows<float, 3>, Matrix<const float>>);
static_assert(!converts<Vector<const float>, Vector<float>>);
static_assert(!converts<Matrix<float>, Rows<float, 3>>);
static_assert(!converts<Rows<float, 3>, Rows<float, 4>>);
static_assert(!converts<Rows<float, 3>, View<float, 2, 3>>);
static_assert(!converts<Vector<float>, Matrix<float>>);
static_assert(!converts<Vector<float>, Vector<double>>);
static_assert(!converts<Vector<double>, Vector<const float>>);
struct Base {};
struct Derived : Base {
  int more;
};
static_assert(!converts<Vector<Derived>, Vector<Base>>);  // another distance between elements
static_assert(!converts<float*, Vector<float>>);
static_assert(!std::is_constructible_v<Rows<float, 3>, float*>);
static_assert(!std::is_constructible_v<Rows<float, 3>, float*, int, int>);
static_assert(std::is_trivially_copyable_v<View<float, dyn, 2, 3>>);
static_assert(HasColumns<Matrix<float>> && HasColumns<Rows<float, 4>>);
static_assert(!HasColumns<Vector<float>> && !HasColumns<View<float, 2, 3, 4>>);

// Shapes and elements can be worked out when compiling.
constexpr float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr View<const float, 2, 2, 3> cube(numbers);
static_assert(cube(0, 0, 0) == 0 && cube(0, 1, 2) == 5 && cube(1, 0, 1) == 7 && cube(1, 1, 2) == 11);
static_assert(cube.row_size() == 6 && cube.size() == 12 && cube.is_packed());
constexpr auto last = cube.rows(1, 1);
static_assert(std::is_same_v<decltype(last), const View<const float, dyn, 2, 3>>);
static_assert(last.extent(0) == 1 && last(0, 1, 0) == 9);
static_assert(cube.matrix().extent(1) == 6 && cube.matrix()(1, 3) == 9);
constexpr Rows<const float, 4> table(numbers, 3);
constexpr auto middle = table.columns<1, 2>();
static_assert(std::is_same_v<decltype(middle), const View<const float, dyn, 2>>);
static_assert(middle(2, 1) == 10 && middle.row_stride() == 4 && !middle.is_packed());
static_assert(std::is_same_v<decltype(View<float, 3, 4>().columns<1, 2>()), View<float, 3, 2>>);

std::vector<int> counted(index_t n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

}  // namespace

TEST_CASE("a column slice writes its columns and no others") {
  constexpr index_t rows = 5, columns = 7;
  for (index_t begin = 0; begin <= columns; ++begin) {
    for (index_t count = 0; begin + count <= columns; ++count) {
      auto data = counted(rows * columns);
      const auto slice = Matrix<int>(data.data(), rows, columns).columns(begin, count);
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < count; ++j) slice(i, j) = -1;
      }
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < columns; ++j) {
          const bool written = begin <= j && j < begin + count;
          REQUIRE(data[static_cast<std::size_t>(i * columns + j)] == (written ? -1 : i * columns + j));
        }
      }
    }
  }
}

TEST_CASE("slices of slices keep the distance between rows") {
  auto data = counted(6 * 10);
  const Matrix<int> a(data.data(), 6, 10);
  const auto b = a.columns(2, 6).rows(1, 4).columns<1, 3>();
  CHECK(b.extent(0) == 4);
  CHECK(b.extent(1) == 3);
  CHECK(b.row_stride() == 10);
  CHECK(b(0, 0) == 13);
  CHECK(b(3, 2) == 45);
  CHECK(b.row(2) == data.data() + 33);
  const Matrix<const int> c = b;
  CHECK(c.row_stride() == 10);
  CHECK(&c(3, 2) == &b(3, 2));
  const auto cube = View<int, dyn, 2, 3>(data.data(), Extents<dyn, 2, 3>(4), 10);
  CHECK(cube(3, 1, 2) == 35);
  CHECK(cube.rows(2, 2)(1, 1, 2) == 35);
  CHECK(cube.matrix()(3, 5) == 35);
}

TEST_CASE("forgetting static extents keeps all of them") {
  auto data = counted(24);
  const View<int, 2, 3, 4> a(data.data());
  const View<int, dyn, 3, dyn> b = a;
  CHECK(b.extent(0) == 2);
  CHECK(b.extent(1) == 3);
  CHECK(b.extent(2) == 4);
  const View<const int, dyn, dyn, dyn> c = b;
  CHECK(c.extent(0) == 2);
  CHECK(c.extent(1) == 3);
  CHECK(c.extent(2) == 4);
  CHECK(c(1, 2, 3) == 23);
}

TEST_CASE("empty views and single rows are packed") {
  CHECK(Matrix<float>().size() == 0);
  CHECK(Matrix<float>(nullptr, 0, 8).is_packed());
  CHECK(Rows<float, 8>(nullptr, Extents<dyn, 8>(1), 100).is_packed());
  CHECK_FALSE(Rows<float, 8>(nullptr, Extents<dyn, 8>(2), 100).is_packed());
  CHECK(Rows<float, 8>(nullptr, 3).rows(3, 0).size() == 0);
}

TEST_CASE("a shape is its rows and its columns, not how many elements there are") {
  auto data = counted(12);
  const auto refused = [&](const auto& x, index_t rows, index_t columns, const char* message) {
    CHECK_THROWS_WITH_AS(require_shape("x", x, rows, columns), message, Error);
  };
  const Matrix<int> a(data.data(), 3, 4);
  CHECK_NOTHROW(require_shape("x", a, 3, 4));
  refused(a, 4, 3, "x: found 3 x 4, wanted 4 x 3");
  refused(a, 6, 2, "x: found 3 x 4, wanted 6 x 2");
  refused(Matrix<int>(data.data(), 0, 4), 0, 3, "x: found 0 x 4, wanted 0 x 3");
  CHECK_NOTHROW(require_shape("x", View<int, dyn, 2, 3>(data.data(), 2), 2, 6));
  refused(View<int, dyn, 2, 3>(data.data(), 2), 4, 3, "x: found 2 x 6, wanted 4 x 3");
}

TEST_CASE("elements beyond 2^31 are reached") {
  // Addresses only; nothing is read.
  const Matrix<const char> a(reinterpret_cast<const char*>(0x1000), 163840, 33792);
  CHECK(&a(163839, 33791) - a.data() == index_t{163840} * 33792 - 1);
}
