#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <k3spec/backend/cpu/gemm.hpp>

using namespace k3spec;

TEST_CASE("a batch of products is each product by itself, also where the matrices are heads beside each other") {
  constexpr index_t heads = 3, m = 2, n = 4, k = 5;
  // Elements behind each row of the operands, and behind each matrix of the result.
  for (const index_t gap : {0, 3}) {
    constexpr double untouched = -1000;
    const index_t row = heads * k + gap, matrix = m * n + gap;
    std::vector<double> q(static_cast<std::size_t>(m * row)), kv(static_cast<std::size_t>(n * row)),
        scores(static_cast<std::size_t>(heads * matrix), untouched), alone(m * n);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<double>(i % 7) - 2.5;
    for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = static_cast<double>(i % 11) / 3;
    const auto a = head_batch(Matrix<const double>(q.data(), m, row).columns(0, heads * k), heads);
    const auto b = head_batch(Matrix<const double>(kv.data(), n, row).columns(0, heads * k), heads);
    const auto c = batch(View<double, dyn, dyn, dyn>(scores.data(), Extents<dyn, dyn, dyn>(heads, m, n), matrix));
    gemm_batch(Cpu{2}, a, Op::plain, b, Op::transposed, c);
    for (index_t h = 0; h < heads; ++h) {
      gemm(Cpu{}, a[h], Op::plain, b[h], Op::transposed, Matrix<double>(alone.data(), m, n));
      for (index_t i = 0; i < m; ++i) {
        double by_hand = 0;
        for (index_t j = 0; j < k; ++j)
          by_hand += q[static_cast<std::size_t>(i * row + h * k + j)] * kv[static_cast<std::size_t>(h * k + j)];
        CHECK(alone[static_cast<std::size_t>(i * n)] == doctest::Approx(by_hand).epsilon(1e-14));
      }
      const auto of_head = scores.begin() + h * matrix;
      CHECK(std::equal(alone.begin(), alone.end(), of_head));
      CHECK(std::all_of(of_head + m * n, of_head + matrix, [](double x) { return x == untouched; }));
    }
    auto fewer = b;
    --fewer.count;
    CHECK_THROWS_WITH_AS(gemm_batch(Cpu{}, a, Op::plain, fewer, Op::transposed, c),
                         "gemm: matrices of B: found 2, wanted 3", Error);
    fewer = a;
    --fewer.count;
    CHECK_THROWS_WITH_AS(gemm_batch(Cpu{}, fewer, Op::plain, b, Op::transposed, c),
                         "gemm: matrices of A: found 2, wanted 3", Error);
  }
}
