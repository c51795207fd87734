#pragma once
/// \file
/// Matrix product. Every element of the result is ONE chain of fused multiply-adds over k = 0, 1, 2, … in the
/// accumulation type, started from 0 (or from the element's old value), and rounded once to the result's type. So its
/// bits depend on its row of A and its column of B alone: not on the other rows, the blocking or the thread count.
/// defines: Op, Into, gemm

#include <cassert>
#include <cmath>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace k3spec {

/// How an operand is read.
enum class Op { plain, transposed };

/// Whether the result replaces the old value or is added to it.
enum class Into { overwrite, accumulate };

/// C [M,N] (= or +=) op(A) [M,K] · op(B) [K,N]
template <class TA, class TB, class TC>
void gemm(const Cpu& cpu, Matrix<TA> a, Op op_a, Matrix<TB> b, Op op_b, Matrix<TC> c, Into into = Into::overwrite) {
  using S = accumulate_t<TC>;
  const index_t m = c.extent(0), n = c.extent(1), k = a.extent(op_a == Op::plain ? 1 : 0);
  parallel_for(cpu, m, [&](index_t i) {
    for (index_t j = 0; j < n; ++j) {
      S sum = into == Into::accumulate ? static_cast<S>(c(i, j)) : S{0};
      for (index_t p = 0; p < k; ++p) {
        const S x = static_cast<S>(op_a == Op::plain ? a(i, p) : a(p, i));
        const S y = static_cast<S>(op_b == Op::plain ? b(p, j) : b(j, p));
        sum = std::fma(x, y, sum);
      }
      c(i, j) = static_cast<TC>(sum);
    }
  });
}

}  // namespace k3spec
