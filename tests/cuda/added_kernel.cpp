// The examples of include/k3spec/backend/cuda/README.md, which tests/house compares with this file: an op that is an
// expression, and one that has a kernel of its own. Tested as any op is: Cpu's bits in all shapes and types.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>

namespace mine {

using namespace k3spec;

/// y = x · σ(g)
template <Device D, AnyView X, AnyView G, AnyView Y>
void gate(const D& device, const X& x, const G& g, const Y& y) {
  evaluate(device, expr::arg<0> * sigmoid(expr::arg<1>), y, x, g);
}

}  // namespace mine

namespace K3SPEC_NAMESPACE {

/// In backend/cpu.
template <class T>
void shift_rows_kernel(const Cpu& cpu, const Matrix<const T>& x, const Matrix<T>& y) {
  parallel_for(cpu, y.extent(0), [&](index_t r) {
    for (index_t j = 0; j < y.extent(1); ++j) y(r, j) = r == 0 ? T() : x(r - 1, j);
  });
}

/// In ops: y[0] = 0, y[r] = x[r - 1]. x, y [rows, n], which must not overlap.
template <class T, Device D>
void shift_rows(const D& device, Matrix<const T> x, Matrix<T> y) {
  expr::check_shape("shift_rows", 0, y.extent(0), y.extent(1), x.extent(0), x.extent(1));
  shift_rows_kernel(device, x, y);
}

namespace cuda {

template <int V, class T>
__global__ void __launch_bounds__(256) shift_rows_down(Matrix<const T> x, Matrix<T> y, unsigned aligned) {
  for_lanes<V>(y.extent(0), y.extent(1), [&](index_t row, index_t column, int n) {
    accumulate_t<T> lanes[V] = {};
    if (row > 0) load_lanes<V>(x.row(row - 1) + column, n, (aligned & 1U) != 0, lanes);
    store_lanes<V>(lanes, y.row(row) + column, n, (aligned & 2U) != 0);
  });
}

}  // namespace cuda

/// In this folder: the same on a card.
template <class T>
void shift_rows_kernel(const Cuda& cuda, const Matrix<const Placed<T, Cuda>>& x, const Matrix<Placed<T, Cuda>>& y) {
  constexpr int V = cuda::lanes_per_thread<T>;
  cuda.require_device_memory(x, "shift_rows: x");
  cuda.require_device_memory(y, "shift_rows: y");
  if (y.size() == 0) return;
  const auto from = bare(x);
  const auto to = bare(y);
  cuda::launch(cuda, cuda::element_shape(cuda, to.extent(0), to.extent(1), V), cuda::shift_rows_down<V, T>, from, to,
               cuda::aligned_bits(std::tuple(from, to)));
}

}  // namespace K3SPEC_NAMESPACE

using namespace k3spec;

namespace {

/// Numbers for `rows` rows of `n`, `gap` elements between them, after `offset`.
struct Layout {
  index_t rows, n, offset, gap;

  index_t stride() const { return n + gap; }
  template <class T>
  std::vector<T> draw(std::uint64_t seed) const {
    std::vector<T> values;
    const Philox random(seed);
    for (index_t i = 0; i < offset + rows * stride(); ++i)
      values.push_back(T(static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i)))));
    return values;
  }
  template <class T>
  Matrix<T> in(Vector<T> memory) const {
    return Matrix<T>(memory.data() + offset, Extents<dyn, dyn>(rows, n), stride());
  }
};

template <class F>
void for_layouts(F&& f) {
  for (const index_t rows : {1, 31}) {
    for (const index_t n : {1, 7, 32, 33, 1000}) f(Layout{rows, n, 0, 0}), f(Layout{rows, n, 1, 3});
  }
  f(Layout{4097, 33, 0, 7});
}

/// All memory of the result, what lies between its rows too.
template <class T, class D>
std::vector<double> shifted(const Layout& l) {
  test::Mirror<T, D> x(l.draw<T>(1)), y(l.draw<T>(2));
  shift_rows<element_t<D, T>>(test::device<D>(2), l.in(x.vector()), l.in(y.vector()));
  std::vector<double> all;
  for (const T v : y.get()) all.push_back(static_cast<double>(v));
  return all;
}

template <class D>
std::vector<float> gated(const Layout& l) {
  test::Mirror<float, D> x(l.draw<float>(1)), g(l.draw<float>(2)), y(l.draw<float>(3));
  mine::gate(test::device<D>(), l.in(x.vector()), l.in(g.vector()), l.in(y.vector()));
  return y.get();
}

}  // namespace

TEST_CASE_TEMPLATE("an added kernel: Cpu's bits, and nothing between the rows is touched", T, float, double, bfloat16) {
  for_layouts([](const Layout& l) {
    CAPTURE(l.rows);
    CAPTURE(l.n);
    CAPTURE(l.offset);
    CHECK(shifted<T, Cuda>(l) == shifted<T, Cpu>(l));
  });
}

TEST_CASE("an added kernel: nothing to do, wrong shapes, host memory") {
  using OnCard = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  std::vector<float> host(6);
  test::Mirror<float, Cuda> x(host);
  const Matrix<OnCard> empty(nullptr, 0, 3);
  CHECK_NOTHROW(shift_rows<OnCard>(cuda, empty, empty));
  CHECK_THROWS_WITH_AS(shift_rows<OnCard>(cuda, x.matrix(3), x.matrix(2)),
                       "expression: shift_rows 0: found 3 x 2, wanted 2 x 3", Error);
  CHECK_THROWS_WITH_AS(
      shift_rows<OnCard>(cuda, x.matrix(3), test::taken_for_the_cards(Matrix<float>(host.data(), 2, 3))),
      "shift_rows: y: found host memory, wanted device memory", Error);
}

TEST_CASE("an added expression needs nothing: Cpu's bits") {
  for_layouts([](const Layout& l) { CHECK(gated<Cuda>(l) == gated<Cpu>(l)); });
}
