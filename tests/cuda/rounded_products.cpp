// Products of a float operand that is rounded to bfloat16 first: those of the rounded numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/core/rng.hpp>

#include "device.hpp"

using namespace k3spec;

namespace {

/// Standard normal values with all their bits.
std::vector<float> numbers(std::uint64_t seed, index_t count) {
  std::vector<float> all;
  for (index_t i = 0; i < count; ++i) {
    all.push_back(static_cast<float>(Philox(seed).normal(static_cast<std::uint64_t>(i))));
  }
  return all;
}
std::vector<bfloat16> rounded(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// C += op(A) op(B) on D, A and B of these values, C = 1 before.
template <class D, class TA, class TB>
std::vector<float> product(const D& device, const std::vector<TA>& a, index_t a_columns, Op op_a,
                           const std::vector<TB>& b, index_t b_columns, Op op_b, index_t m, index_t n) {
  test::Mirror<TA, D> left(a);
  test::Mirror<TB, D> right(b);
  test::Mirror<float, D> out(std::vector<float>(static_cast<std::size_t>(m * n), 1));
  gemm(device, left.matrix(a_columns), op_a, right.matrix(b_columns), op_b, out.matrix(n), Into::accumulate);
  if constexpr (!shares_memory<D>) device.synchronize();  // what out is read by is another stream
  return out.get();
}

double furthest(const std::vector<float>& x, const std::vector<float>& y) {
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(double(x[i]) - double(y[i])));
  return most;
}

}  // namespace

TEST_CASE("gemm on Cuda: a float operand that is rounded to bfloat16 has the products of what it is rounded to") {
  CudaOptions options = test::small_workspaces;
  options.panel_workspace = 2200;  // 15 rows of 70: 70 rows take five panels
  options.mixed_products = MixedProducts::rounded;
  const Cuda cuda(options);
  struct Shape {
    index_t m, n, k;
  };
  for (const Shape s : {Shape{2, 3, 5}, {1, 1, 1}, {70, 33, 31}, {31, 70, 33}, {33, 31, 70}, {5, 4, 900}}) {
    CAPTURE(s.m);
    const auto a = numbers(1, s.m * s.k), b = numbers(2, s.k * s.n);
    const double half = std::numeric_limits<float>::epsilon() / 2, terms = static_cast<double>(s.k);
    const double tolerance = 4 * half * std::sqrt(2 * terms + 6) * (std::sqrt(terms) + 2);
    for (const Op op_a : {Op::plain, Op::transposed}) {
      for (const Op op_b : {Op::plain, Op::transposed}) {
        const index_t wide_a = op_a == Op::plain ? s.k : s.m, wide_b = op_b == Op::plain ? s.n : s.k;
        const auto wanted = product(Cpu{1}, rounded(a), wide_a, op_a, rounded(b), wide_b, op_b, s.m, s.n);
        CHECK(furthest(product(cuda, a, wide_a, op_a, rounded(b), wide_b, op_b, s.m, s.n), wanted) <= tolerance);
        CHECK(furthest(product(cuda, rounded(a), wide_a, op_a, b, wide_b, op_b, s.m, s.n), wanted) <= tolerance);
        // And not those of the float's own value.
        const auto exact = product(test::device<Cuda>(), a, wide_a, op_a, rounded(b), wide_b, op_b, s.m, s.n);
        CHECK(furthest(exact, wanted) > tolerance);
      }
    }
  }
}

TEST_CASE("gemm on Cuda: a panel for one rounded row, and none") {
  CudaOptions options = test::small_workspaces;
  options.mixed_products = MixedProducts::rounded;
  options.panel_workspace = 128 + 2 * 10;
  const Cuda cuda(options);
  const auto a = numbers(3, 20), b = numbers(4, 10);
  CHECK(product(cuda, a, 10, Op::plain, rounded(b), 1, Op::plain, 2, 1).size() == 2);
  CHECK_THROWS_WITH_AS(product(cuda, numbers(3, 11), 11, Op::plain, rounded(numbers(4, 11)), 1, Op::plain, 1, 1),
                       "gemm: panel workspace: found 148 bytes, wanted room for 1 bfloat16 rows of 11 elements", Error);
}
