#pragma once
/// \file
/// Matrix products by cuBLAS. The one place that knows that cuBLAS counts in columns: a row-major matrix [r, c] of row
/// stride s is a column-major [c, r] of leading dimension s, so C = op(A)·op(B) is asked for as Cᵀ = op(B)ᵀ·op(A)ᵀ,
/// with the operands changed about and each read as before.
///
/// Sums are kept in the accumulation type and rounded once to C's type. float means float32 arithmetic, never TF32. A
/// float operand meets a bfloat16 one as three bfloat16 matrices that add up to it exactly (but below 2⁻¹³³): three
/// products on the tensor cores that lose nothing, in panels that fit Cuda::panel; or rounded to the first of them
/// alone (MixedProducts). A float that is infinite as a bfloat16 (from 3.3962e38 on) makes its sums NaN, or infinite.
/// defines: gemm, gemm_batch

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <type_traits>

#include <k3spec/backend/cuda/evaluate.hpp>
#include <k3spec/backend/product.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

template <class T>
inline constexpr cudaDataType_t blas_type = CUDA_R_32F;
template <>
inline constexpr cudaDataType_t blas_type<double> = CUDA_R_64F;
template <>
inline constexpr cudaDataType_t blas_type<bfloat16> = CUDA_R_16BF;

template <class T>
inline constexpr cublasComputeType_t blas_compute = std::same_as<T, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;

/// Op as cuBLAS names it.
inline cublasOperation_t blas_op(Op op) { return op == Op::plain ? CUBLAS_OP_N : CUBLAS_OP_T; }

/// Any matrix as a batch of one.
template <class T>
MatrixBatch<T> single(const Matrix<T>& m) {
  return {m.data(), 1, m.extent(0), m.extent(1), m.row_stride(), 0};
}

/// A leading dimension as cuBLAS wants it, also of a matrix whose rows are so few that their distance means nothing.
template <class T>
index_t leading_dimension(const MatrixBatch<T>& m) {
  return std::max({m.row_stride, m.columns, index_t{1}});
}

/// A matrix, or a batch of them, and how it is read.
template <class M>
struct Factor {
  M matrix;
  Op op;
};

/// C = op(A)·op(B) + beta·C, all in row-major terms, k > 0 and C not empty.
template <class T, class TC>
void multiply(const Cuda& cuda, const ProductShape& s, const Factor<MatrixBatch<const T>>& left,
              const Factor<MatrixBatch<const T>>& right, const MatrixBatch<TC>& c, bool accumulate) {
  const auto& [a, op_a] = left;
  const auto& [b, op_b] = right;
  using S = accumulate_t<T>;
  const S alpha = 1, beta = accumulate ? S(1) : S(0);
  check(cublasGemmStridedBatchedEx_64(
            cuda.blas(), blas_op(op_b), blas_op(op_a), s.n, s.m, s.k, &alpha, b.data, blas_type<T>,
            leading_dimension(b), b.batch_stride, a.data, blas_type<T>, leading_dimension(a), a.batch_stride, &beta,
            c.data, blas_type<TC>, leading_dimension(c), c.batch_stride, c.count, blas_compute<T>, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx_64");
}

/// Types of A, B and C that a product may have.
template <class A, class B, class C>
inline constexpr bool same_operands = std::same_as<A, B> && (std::same_as<C, A> || std::same_as<C, accumulate_t<A>>);
template <class A, class B, class C>
inline constexpr bool mixed_operands = std::same_as<C, float> &&
                                       ((std::same_as<A, float> && std::same_as<B, bfloat16>) ||
                                        (std::same_as<A, bfloat16> && std::same_as<B, float>));

/// x = high + middle + low, each a bfloat16.
inline constexpr auto split_high = expr::rounded_to<bfloat16>(expr::arg<0>);
inline constexpr auto split_middle = expr::rounded_to<bfloat16>(expr::arg<0> - split_high);
inline constexpr auto split_low = expr::arg<0> - split_high - split_middle;

/// The bfloat16 parts of a float matrix [rows, columns], in the panel: three, or the first alone.
class SplitPanel {
 public:
  SplitPanel(const Cuda& cuda, const Matrix<const float>& x) : count_(parts_of(cuda)) {
    const index_t size = x.extent(0) * x.extent(1);
    auto* p = reinterpret_cast<bfloat16*>(cuda.panel().data());
    for (index_t i = 0; i < count_; ++i, p += padded(size)) {
      parts_[static_cast<std::size_t>(i)] = Matrix<bfloat16>(p, x.extent(0), x.extent(1));
    }
    if (count_ == 1) {
      evaluate_all(cuda, formulas(split_high), outputs(parts_[0]), std::tuple(x));
    } else {
      evaluate_all(cuda, formulas(split_high, split_middle, split_low), outputs(parts_[0], parts_[1], parts_[2]),
                   std::tuple(x));
    }
  }
  std::span<const Matrix<bfloat16>> parts() const { return {parts_.data(), static_cast<std::size_t>(count_)}; }

  /// Rows of `columns` columns that fit.
  static index_t rows(const Cuda& cuda, index_t columns) {
    const auto bytes = static_cast<index_t>(cuda.panel().size());
    return (bytes / parts_of(cuda) - pad * static_cast<index_t>(sizeof(bfloat16))) /
           (static_cast<index_t>(sizeof(bfloat16)) * std::max<index_t>(1, columns));
  }
  static index_t parts_of(const Cuda& cuda) { return cuda.mixed_products() == MixedProducts::exact ? 3 : 1; }

 private:
  static constexpr index_t pad = 64;
  static index_t padded(index_t n) { return (n + pad - 1) / pad * pad; }
  index_t count_;
  std::array<Matrix<bfloat16>, 3> parts_{};
};

/// Calls f(first row, part of these rows, is this the first part of all) for panels of x: high parts before low ones.
template <class F>
void for_split_panels(const Cuda& cuda, const Matrix<const float>& x, F&& f) {
  const index_t most = SplitPanel::rows(cuda, x.extent(1));
  if (most < 1) {
    throw Error("gemm: panel workspace", std::to_string(cuda.panel().size()) + " bytes",
                "room for " + std::to_string(SplitPanel::parts_of(cuda)) + " bfloat16 rows of " +
                    std::to_string(x.extent(1)) + " elements");
  }
  for (index_t begin = 0; begin < x.extent(0); begin += most) {
    const index_t count = std::min(most, x.extent(0) - begin);
    const SplitPanel panel(cuda, x.rows(begin, count));
    bool first = true;
    for (const Matrix<const bfloat16> part : panel.parts()) {
      f(begin, part, first);
      first = false;
    }
  }
}

/// Rows [begin, begin + count) of op(x).
template <class T>
Matrix<T> op_rows(const Matrix<T>& x, Op op, index_t begin, index_t count) {
  return op == Op::plain ? x.rows(begin, count) : x.columns(begin, count);
}
/// `count` columns of op(x) from `begin` on.
template <class T>
Matrix<T> op_columns(const Matrix<T>& x, Op op, index_t begin, index_t count) {
  return op == Op::plain ? x.columns(begin, count) : x.rows(begin, count);
}

/// The float operand is A. Its rows are rows of C, or the products' common index, whose sums go on in C.
template <class C>
void multiply_split_a(const Cuda& cuda, const ProductShape& s, const Factor<Matrix<const float>>& a,
                      const Factor<Matrix<const bfloat16>>& b, const Matrix<C>& c, bool accumulate) {
  using Batch = Factor<MatrixBatch<const bfloat16>>;
  for_split_panels(cuda, a.matrix, [&](index_t begin, const Matrix<const bfloat16>& part, bool first) {
    const index_t n = part.extent(0);
    if (a.op == Op::plain) {
      multiply(cuda, {n, s.n, s.k}, Batch{single(part), a.op}, Batch{single(b.matrix), b.op}, single(c.rows(begin, n)),
               accumulate || !first);
    } else {
      multiply(cuda, {s.m, s.n, n}, Batch{single(part), a.op}, Batch{single(op_rows(b.matrix, b.op, begin, n)), b.op},
               single(c), accumulate || !first || begin > 0);
    }
  });
}

/// The float operand is B: its rows are the common index, or columns of C.
template <class C>
void multiply_split_b(const Cuda& cuda, const ProductShape& s, const Factor<Matrix<const bfloat16>>& a,
                      const Factor<Matrix<const float>>& b, const Matrix<C>& c, bool accumulate) {
  using Batch = Factor<MatrixBatch<const bfloat16>>;
  for_split_panels(cuda, b.matrix, [&](index_t begin, const Matrix<const bfloat16>& part, bool first) {
    const index_t n = part.extent(0);
    if (b.op == Op::plain) {
      multiply(cuda, {s.m, s.n, n}, Batch{single(op_columns(a.matrix, a.op, begin, n)), a.op},
               Batch{single(part), b.op}, single(c), accumulate || !first || begin > 0);
    } else {
      multiply(cuda, {s.m, n, s.k}, Batch{single(a.matrix), a.op}, Batch{single(part), b.op},
               single(c.columns(begin, n)), accumulate || !first);
    }
  });
}

/// Sums of nothing.
template <class C>
void empty_sums(const Cuda& cuda, const Matrix<C>& c, bool accumulate) {
  if (!accumulate) evaluate_all(cuda, formulas(expr::as_expression(0.0)), outputs(c), std::tuple());
}

}  // namespace cuda

/// C [M,N] (= or +=) op(A) [M,K] · op(B) [K,N]; the same contract as Cpu's (backend/cpu/gemm.hpp), but bits are
/// cuBLAS's, and types are {double, float or bfloat16, all the same, C perhaps the accumulation type} or float with
/// bfloat16 into float. Returns before it has run.
/// \throws Error when the shapes do not fit together, CudaError
template <class TA, index_t... EA, class TB, index_t... EB, class TC, index_t... EC>
  requires(sizeof...(EA) == 2 && sizeof...(EB) == 2 && sizeof...(EC) == 2 && !std::is_const_v<TC>)
void gemm(const Cuda& cuda, const View<TA, EA...>& a, Op op_a, const View<TB, EB...>& b, Op op_b,
          const View<TC, EC...>& c, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  using A = std::remove_const_t<value_t<TA>>;
  using B = std::remove_const_t<value_t<TB>>;
  using C = value_t<TC>;
  static_assert(cuda::on_card<View<TA, EA...>, View<TB, EB...>, View<TC, EC...>>,
                "gemm on Cuda: A, B or C is no view of element_t<Cuda, T>");
  static_assert(cuda::same_operands<A, B, C> || cuda::mixed_operands<A, B, C>,
                "gemm on Cuda: A and B of one type and C of it or of its accumulation type, or float with bfloat16 "
                "into float");
  const ProductShape s = product_shape(a, op_a, b, op_b, c);
  cuda.require_device_memory(a, "gemm: A");
  cuda.require_device_memory(b, "gemm: B");
  cuda.require_device_memory(c, "gemm: C");
  if (s.m == 0 || s.n == 0) return;
  const bool accumulate = into == Into::accumulate;
  const Matrix<const A> am = bare(a);
  const Matrix<const B> bm = bare(b);
  const Matrix<C> cm = bare(c);
  if (s.k == 0) return cuda::empty_sums(cuda, cm, accumulate);
  if constexpr (std::same_as<A, B>) {
    using Batch = cuda::Factor<MatrixBatch<const A>>;
    cuda::multiply(cuda, s, Batch{cuda::single(am), op_a}, Batch{cuda::single(bm), op_b}, cuda::single(cm), accumulate);
  } else if constexpr (std::same_as<A, float>) {
    cuda::multiply_split_a(cuda, s, {am, op_a}, {bm, op_b}, cm, accumulate);
  } else {
    cuda::multiply_split_b(cuda, s, {am, op_a}, {bm, op_b}, cm, accumulate);
  }
}

/// C[i] (= or +=) op(A[i]) · op(B[i]) for every i of a batch, in one call; A and B of one type.
/// \throws Error when the shapes do not fit together, CudaError
template <class TA, class TB, class TC>
void gemm_batch(const Cuda& cuda, const MatrixBatch<TA>& a, Op op_a, const MatrixBatch<TB>& b, Op op_b,
                const MatrixBatch<TC>& c, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  using A = std::remove_const_t<value_t<TA>>;
  using C = value_t<TC>;
  static_assert(cuda::on_card<Matrix<TA>, Matrix<TB>, Matrix<TC>>,
                "gemm_batch on Cuda: A, B or C is no view of element_t<Cuda, T>");
  static_assert(cuda::same_operands<A, std::remove_const_t<value_t<TB>>, C>,
                "gemm_batch on Cuda: A and B of one type, C of it or of its accumulation type");
  const ProductShape s = batch_shape(a, op_a, b, op_b, c);
  if (s.m == 0 || s.n == 0 || c.count == 0) return;
  cuda.require_device_memory(a[0], "gemm_batch: A");
  cuda.require_device_memory(b[0], "gemm_batch: B");
  cuda.require_device_memory(c[0], "gemm_batch: C");
  const bool accumulate = into == Into::accumulate;
  if (s.k == 0) {
    for (index_t i = 0; i < c.count; ++i) cuda::empty_sums(cuda, bare(c[i]), accumulate);
    return;
  }
  const auto as_const = [](const auto& m) {
    return MatrixBatch<const A>{bare(m.data), m.count, m.rows, m.columns, m.row_stride, m.batch_stride};
  };
  using Batch = cuda::Factor<MatrixBatch<const A>>;
  cuda::multiply(cuda, s, Batch{as_const(a), op_a}, Batch{as_const(b), op_b},
                 MatrixBatch<C>{bare(c.data), c.count, c.rows, c.columns, c.row_stride, c.batch_stride}, accumulate);
}

}  // namespace K3SPEC_NAMESPACE
