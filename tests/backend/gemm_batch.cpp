#include <doctest/doctest.h>

#include <vector>

#include <k3spec/backend/cpu/gemm.hpp>

using namespace k3spec;

TEST_CASE("a batch of products is each product by itself, also where the matrices are heads beside each other") {
  constexpr index_t heads = 3, m = 2, n = 4, k = 5;
  std::vector<double> q(m * heads * k), kv(n * heads * k), scores(heads * m * n), alone(m * n);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<double>(i % 7) - 2.5;
  for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = static_cast<double>(i % 11) / 3;
  const auto a = head_batch(Matrix<const double>(q.data(), m, heads * k), heads);
  const auto b = head_batch(Matrix<const double>(kv.data(), n, heads * k), heads);
  const auto c = batch(View<double, dyn, dyn, dyn>(scores.data(), heads, m, n));
  gemm_batch(Cpu{2}, a, Op::plain, b, Op::transposed, c);
  for (index_t h = 0; h < heads; ++h) {
    gemm(Cpu{}, a[h], Op::plain, b[h], Op::transposed, Matrix<double>(alone.data(), m, n));
    for (index_t i = 0; i < m; ++i) {
      double by_hand = 0;
      for (index_t j = 0; j < k; ++j)
        by_hand += q[static_cast<std::size_t>(i * heads * k + h * k + j)] * kv[static_cast<std::size_t>(h * k + j)];
      CHECK(alone[static_cast<std::size_t>(i * n)] == doctest::Approx(by_hand).epsilon(1e-14));
    }
    for (index_t i = 0; i < m * n; ++i)
      CHECK(scores[static_cast<std::size_t>(h * m * n + i)] == alone[static_cast<std::size_t>(i)]);
  }
  auto fewer = b;
  --fewer.count;
  CHECK_THROWS_WITH_AS(gemm_batch(Cpu{}, a, Op::plain, fewer, Op::transposed, c),
                       "gemm: matrices of B: found 2, wanted 3", Error);
}
