#pragma once
/// \file
/// Matrix products as a share of a plain call of cuBLAS on the same operands.
/// defines: bench::Products, products

#include <cmath>
#include <concepts>
#include <memory>
#include <type_traits>
#include <vector>

#include <bench/cuda/setting.hpp>

namespace k3spec::bench {

class Products {
 public:
  explicit Products(Setting& setting) : s_(setting) {
    cublasHandle_t blas = nullptr;
    cuda::check(cublasCreate(&blas), "cublasCreate");
    blas_.reset(blas);
    cuda::check(cublasSetStream(blas, s_.cuda.stream()), "cublasSetStream");
  }

  /// C [m, n] = op(A) · op(B). cuBLAS has no product of float with bf16: the yardstick of these is the one of bf16 with
  /// bf16 into the same type, of which they are three.
  template <class A, class B, class C>
  void measure(const char* what, const ProductShape& p, Op op_a, Op op_b) {
    using Plain = std::conditional_t<std::same_as<A, B>, A, bfloat16>;
    auto a = numbers<A>(s_.cuda, p.m * p.k, 1);
    auto b = numbers<B>(s_.cuda, p.k * p.n, 2);
    CudaBuffer<C> c(s_.cuda, p.m * p.n), plain_c(s_.cuda, c.size());
    const index_t a_columns = op_a == Op::plain ? p.k : p.m, b_columns = op_b == Op::plain ? p.n : p.k;
    const double ours = s_.watch.seconds(
        [&] { gemm(s_.cuda, matrix(a, a_columns), op_a, matrix(b, b_columns), op_b, matrix(c, p.n)); });
    auto plain_a = numbers<Plain>(s_.cuda, a.size(), 1), plain_b = numbers<Plain>(s_.cuda, b.size(), 2);
    const double plain =
        s_.watch.seconds([&] { multiply(p, plain_a, a_columns, op_a, plain_b, b_columns, op_b, plain_c); });
    require_same(what, p, c, plain_c);
    const double work = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const auto rate = [&](double seconds) { return fmt::format("{:.2f} TFLOP/s", work / seconds * 1e-12); };
    Setting::print(what, fmt::format("{} x {} -> {}", type_name<A>, type_name<B>, type_name<C>),
                   fmt::format("{} x {} x {}", p.m, p.n, p.k), ours, rate(ours), rate(plain), plain / ours);
  }

 private:
  struct Destroy {
    void operator()(cublasHandle_t h) const { cublasDestroy(h); }
  };

  /// In columns: Cᵀ [n, m] = op(B)ᵀ · op(A)ᵀ.
  template <class T, class C>
  void multiply(const ProductShape& p, const CudaBuffer<T>& a, index_t a_columns, Op op_a, const CudaBuffer<T>& b,
                index_t b_columns, Op op_b, CudaBuffer<C>& c) const {
    const float one = 1, zero = 0;
    cuda::check(
        cublasGemmEx_64(blas_.get(), cuda::blas_op(op_b), cuda::blas_op(op_a), p.n, p.m, p.k, &one, bare(b.data()),
                        cuda::blas_type<T>, b_columns, bare(a.data()), cuda::blas_type<T>, a_columns, &zero,
                        bare(c.data()), cuda::blas_type<C>, p.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx_64");
  }

  /// The last rows differ by roundings only: k products of numbers in [-1, 1), each off by less than 2^-8 at random.
  template <class C>
  void require_same(const char* what, const ProductShape& p, const CudaBuffer<C>& c, const CudaBuffer<C>& plain) const {
    const auto last_row = [&](const CudaBuffer<C>& x) {
      std::vector<C> row(static_cast<std::size_t>(p.n));
      download<C>(s_.cuda, Vector<const element_t<Cuda, C>>(x.data() + (p.m - 1) * p.n, p.n),
                  Vector<C>(row.data(), p.n));
      return row;
    };
    const auto found = last_row(c), wanted = last_row(plain);
    const double most = std::sqrt(static_cast<double>(p.k)) / 32;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto f = static_cast<double>(found[i]), w = static_cast<double>(wanted[i]);
      if (!(std::abs(f - w) <= most)) throw Error(what, fmt::format("{}", f), fmt::format("{} of plain cuBLAS", w));
    }
  }

  Setting& s_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Destroy> blas_;
};

/// The products of a layer y = x Wᵀ with W [inner, hidden]: forward with few rows and many, and a training step's.
inline void products(Setting& s) {
  Products products(s);
  const index_t inner = s.sizes.inner, hidden = s.sizes.hidden, most = s.sizes.rows.back();
  for (const index_t rows : s.sizes.rows) {
    products.measure<bfloat16, bfloat16, bfloat16>("y = x Wt", {rows, inner, hidden}, Op::plain, Op::transposed);
  }
  products.measure<float, float, float>("y = x Wt", {most, inner, hidden}, Op::plain, Op::transposed);
  products.measure<bfloat16, bfloat16, float>("y = x Wt", {most, inner, hidden}, Op::plain, Op::transposed);
  products.measure<float, bfloat16, float>("d_x = d_y W", {most, hidden, inner}, Op::plain, Op::plain);
  products.measure<float, bfloat16, float>("d_W = d_yt x", {inner, hidden, most}, Op::transposed, Op::plain);
}

}  // namespace k3spec::bench
