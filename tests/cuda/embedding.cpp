// The embedding on Cuda: Cpu's bits, also where an id comes a thousand times, and an id outside the table is found.
#include <doctest/doctest.h>

#include <cmath>

#include <tests/cuda/device.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/optimiser/gradient_norm.hpp>

using namespace k3spec;

namespace {

/// ids of which one half is token 3, the others spread over the vocabulary.
std::vector<index_t> draw_ids(index_t rows, index_t vocabulary) {
  std::vector<index_t> ids;
  const Philox random(1);
  for (index_t r = 0; r < rows; ++r) {
    const auto at = static_cast<std::uint64_t>(r);
    const auto id = static_cast<index_t>(random.below(2 * at, static_cast<std::uint64_t>(vocabulary)));
    ids.push_back(random.below(2 * at + 1, 2) == 0 ? std::min<index_t>(3, vocabulary - 1) : id);
  }
  return ids;
}

template <class T>
std::vector<T> draw(index_t n, std::uint64_t seed) {
  std::vector<T> values;
  const Philox random(seed);
  for (index_t i = 0; i < n; ++i)
    values.push_back(T(static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i)))));
  return values;
}

template <class T, class D>
auto run(const std::vector<index_t>& ids, index_t vocabulary, index_t n, std::optional<index_t> pad) {
  using S = accumulate_t<T>;
  const auto rows = static_cast<index_t>(ids.size());
  test::Mirror<index_t, D> on_device(ids);
  test::Mirror<T, D> table(draw<T>(vocabulary * n, 2)), y(std::vector<T>(static_cast<std::size_t>(rows * n)));
  test::Mirror<S, D> d_y(draw<S>(rows * n, 3)), d_table(draw<S>(vocabulary * n, 4));
  const auto& device = test::device<D>(2);
  embedding_forward<element_t<D, T>>(device, on_device.vector(), table.matrix(n), y.matrix(n));
  embedding_backward<element_t<D, S>>(device, on_device.vector(), pad, d_y.matrix(n), d_table.matrix(n));
  std::vector<double> all;
  for (const T v : y.get()) all.push_back(static_cast<double>(v));
  for (const S v : d_table.get()) all.push_back(static_cast<double>(v));
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("the embedding and its gradient are Cpu's, bit for bit", T, float, double, bfloat16) {
  for (const index_t rows : {1, 31, 33, 300}) {
    for (const index_t n : {1, 7, 32, 33, 300}) {
      const auto ids = draw_ids(rows, 11);
      CAPTURE(rows);
      CAPTURE(n);
      CHECK(run<T, Cuda>(ids, 11, n, std::nullopt) == run<T, Cpu>(ids, 11, n, std::nullopt));
      CHECK(run<T, Cuda>(ids, 11, n, 3) == run<T, Cpu>(ids, 11, n, 3));
    }
  }
  CHECK(run<T, Cuda>(draw_ids(4097, 2), 2, 7, std::nullopt) == run<T, Cpu>(draw_ids(4097, 2), 2, 7, std::nullopt));
  // A token that first comes past all rows of one wave of blocks.
  std::vector<index_t> late(2500, 0);
  late.back() = 1;
  CHECK(run<T, Cuda>(late, 2, 7, std::nullopt) == run<T, Cpu>(late, 2, 7, std::nullopt));
  CHECK(run<T, Cuda>({}, 2, 7, std::nullopt) == run<T, Cpu>({}, 2, 7, std::nullopt));
}

TEST_CASE("an id outside the table: NaN in its row, no gradient, and synchronize names the first such row") {
  using OnCard = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  for (const index_t wrong : {-1, 13}) {
    test::Mirror<index_t, Cuda> ids(std::vector<index_t>{4, 0, wrong, wrong, 12});
    test::Mirror<float, Cuda> table(draw<float>(13 * 5, 1)), y(std::vector<float>(25)), d_table(std::vector<float>(65));
    embedding_backward<OnCard>(cuda, ids.vector(), std::nullopt, table.matrix(5).rows(0, 5), d_table.matrix(5));
    const auto gradient = d_table.get();
    double sum = 0;
    for (const float v : gradient) sum += v == 0 ? 0 : 1;
    CHECK(sum == 15);
    embedding_forward<OnCard>(cuda, ids.vector(), table.matrix(5), y.matrix(5));
    CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 2"), Error);
    cuda.synchronize();
    const auto values = y.get();
    for (std::size_t i = 0; i < 25; ++i) CHECK(std::isnan(values[i]) == (i / 5 == 2 || i / 5 == 3));
  }
}

TEST_CASE("the gradient's norm is the same bits on every device") {
  for (const index_t n : {0, 1, 7, 8, 4095, 4096, 4097, 20001, 140000}) {
    const auto g = draw<float>(n, 9);
    const auto d = draw<double>(n, 9);
    test::Mirror<float, Cuda> g_device(g);
    test::Mirror<double, Cuda> d_device(d);
    const Cuda& cuda = test::device<Cuda>();
    CHECK(GradientNorm<Cuda>(cuda, n)(cuda, g_device.vector()) ==
          GradientNorm<>(Cpu{}, n)(Cpu{}, Vector<const float>(g.data(), n)));
    CHECK(GradientNorm<Cuda>(cuda, n)(cuda, d_device.vector()) ==
          GradientNorm<>(Cpu{}, n)(Cpu{}, Vector<const double>(d.data(), n)));
  }
}
