#pragma once
/// \file
/// Matrix product. Every element of the result is ONE chain of fused multiply-adds over k = 0, 1, 2, … in the
/// accumulation type, started from 0 (or from the element's old value), and rounded once to the result's type. So its
/// bits depend on its row of A and its column of B alone: not on the other rows, the blocking or the thread count.
/// defines: gemm, gemm_batch

#include <algorithm>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/gemm_blocked.hpp>
#include <k3spec/backend/cpu/gemm_product.hpp>
#include <k3spec/backend/cpu/gemm_streamed.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/product.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
template <class Product>
void multiply(const Cpu& given, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) return p.empty_sums();
  const Cpu device = in_parallel() ? Cpu{1} : cpu::for_work(given, (p.m + 4) * p.n * p.k, cpu::product_work);
  const index_t threads = std::max(device.threads, 1);
  p.m <= streamed_rows ? Streamed(p).run(device, threads) : Blocked(p).run(device, threads);
}
}  // namespace detail

/// C [M,N] (= or +=) op(A) [M,K] · op(B) [K,N]. C must not overlap A or B. With K = 0 an overwritten C is 0.
/// Small products run on the calling thread; nothing is allocated once a thread has seen its largest product.
/// \throws Error when the shapes do not fit together
template <class TA, index_t... EA, class TB, index_t... EB, class TC, index_t... EC>
  requires(sizeof...(EA) == 2 && sizeof...(EB) == 2 && sizeof...(EC) == 2 && !std::is_const_v<TC>)
void gemm(const Cpu& cpu, const View<TA, EA...>& a, Op op_a, const View<TB, EB...>& b, Op op_b,
          const View<TC, EC...>& c, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  const auto [m, n, k] = product_shape(a, op_a, b, op_b, c);
  const bool a_t = op_a == Op::transposed, b_t = op_b == Op::transposed;
  using A = std::remove_cv_t<TA>;
  using B = detail::StridedB<std::remove_cv_t<TB>>;
  detail::multiply(cpu, detail::Product<A, B, TC>{{a.data(), a.row_stride(), a_t},
                                                  {{b.data(), b.row_stride(), b_t}, n},
                                                  c.data(),
                                                  c.row_stride(),
                                                  m,
                                                  n,
                                                  k,
                                                  into == Into::accumulate});
}

/// C[i] (= or +=) op(A[i]) · op(B[i]) for every i of a batch.
/// \throws Error when the shapes do not fit together
template <class TA, class TB, class TC>
void gemm_batch(const Cpu& cpu, const MatrixBatch<TA>& a, Op op_a, const MatrixBatch<TB>& b, Op op_b,
                const MatrixBatch<TC>& c, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  batch_shape(a, op_a, b, op_b, c);
  parallel_for(cpu, c.count, [&](index_t i) { gemm(cpu, a[i], op_a, b[i], op_b, c[i], into); });
}

}  // namespace K3SPEC_NAMESPACE
