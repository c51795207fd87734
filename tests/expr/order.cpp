// The order of sums is the one that expr/order.hpp writes down, in bits, at lengths around every chain count.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/rng.hpp>

using namespace k3spec;

namespace {

/// The written order, as plainly as it can be said.
float in_order(const std::vector<float>& x, index_t chains) {
  std::vector<float> chain(static_cast<std::size_t>(chains), 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) chain[i % chain.size()] += x[i];
  for (std::size_t half = chain.size() / 2; half > 0; half /= 2) {
    for (std::size_t c = 0; c < half; ++c) chain[c] += chain[c + half];
  }
  return chain[0];
}

std::vector<float> draws(index_t n, std::uint64_t seed) {
  std::vector<float> x;
  for (index_t i = 0; i < n; ++i) x.push_back(static_cast<float>(Philox(seed).normal(static_cast<std::uint64_t>(i))));
  return x;
}

}  // namespace

TEST_CASE("a row's sum has the written order") {
  for (const index_t n : {1, 7, 8, 31, 33, 255, 256, 257, 1000, 4097, 16384, 16385, 18433, 40000}) {
    const auto x = draws(n, 3);
    float sum = 0;
    evaluate_rows(Cpu{}, row_sum(expr::arg<0>), Vector<float>(&sum, 1), Matrix<const float>(x.data(), 1, n));
    CAPTURE(n);
    CHECK(sum == in_order(x, n <= 16384 ? 256 : 2048));
    const float ascending = in_order(x, 1);
    if (n == 40000) CHECK(sum != ascending);
  }
}

TEST_CASE("the adjoint of a row's sum has the written order, too") {
  constexpr index_t n = 1000;
  const auto x = draws(n, 4), d = draws(n, 5);
  std::vector<float> d_x(n), terms;
  for (std::size_t i = 0; i < n; ++i) terms.push_back(d[i] * x[i]);
  Arena scratch;
  const auto as_row = [](auto& v) { return Matrix<std::remove_reference_t<decltype(v[0])>>(v.data(), 1, n); };
  differentiate(Cpu{}, expr::arg<0> * row_sum(expr::arg<1>), as_row(d), gradients(no_gradient, overwrite(as_row(d_x))),
                scratch, as_row(x), as_row(x));
  for (const float v : d_x) CHECK(v == in_order(terms, 256));
}

TEST_CASE("a column's sum over rows has the written order") {
  for (const index_t rows : {1, 2, 15, 16, 17, 31, 100, 4097}) {
    const auto d = draws(rows * 3, 6);
    const std::vector<float> ones(static_cast<std::size_t>(rows * 3), 1.0f), w(3, 1.0f);
    std::vector<float> d_w(3);
    Arena scratch;
    differentiate(Cpu{2}, expr::arg<0> * expr::column<1>, Matrix<const float>(d.data(), rows, 3),
                  gradients(no_gradient, overwrite(Vector<float>(d_w.data(), 3))), scratch,
                  Matrix<const float>(ones.data(), rows, 3), Vector<const float>(w.data(), 3));
    for (std::size_t j = 0; j < 3; ++j) {
      std::vector<float> column;
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) column.push_back(d[r * 3 + j]);
      CHECK(d_w[j] == in_order(column, 16));
    }
  }
}
