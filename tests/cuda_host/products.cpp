#include <cublas_v2.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "support.hpp"

namespace {

struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(double x) {
    const auto u = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    bits = static_cast<std::uint16_t>((u + 0x7fffU + (u >> 16U & 1U)) >> 16U);
  }
  explicit operator double() const { return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16U)); }
};

template <class T>
constexpr cudaDataType type_of = CUDA_R_16BF;
template <>
constexpr cudaDataType type_of<float> = CUDA_R_32F;
template <>
constexpr cudaDataType type_of<double> = CUDA_R_64F;

struct Handle {
  Handle() { REQUIRE(cublasCreate(&get) == CUBLAS_STATUS_SUCCESS); }
  ~Handle() { cublasDestroy(get); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasHandle_t get = nullptr;
};

/// Column-major, rows x columns in columns of ld; what is between them is not touched.
template <class T>
struct Columns {
  std::int64_t rows, columns, ld;
  std::vector<T> values;

  Columns(std::int64_t r, std::int64_t c, std::int64_t padding, int seed)
      : rows(r), columns(c), ld(r + padding), values(static_cast<std::size_t>(ld * c)) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = T(static_cast<double>((static_cast<int>(i) * 7 + seed) % 11 - 5) / 4);
  }
  double at(std::int64_t i, std::int64_t j, bool transposed = false) const {
    return static_cast<double>(values[static_cast<std::size_t>(transposed ? i * ld + j : j * ld + i)]);
  }
};

/// Small numbers with few bits: all types are exact, but for the last rounding to C's.
template <class T, class TC, class Scalar>
void check_product(bool ta, bool tb, Scalar alpha, Scalar beta, cublasComputeType_t compute) {
  constexpr std::int64_t m = 2, n = 3, k = 5;
  const Columns<T> a(ta ? k : m, ta ? m : k, 1, 3), b(tb ? n : k, tb ? k : n, 2, 5);
  Columns<TC> c(m, n, 3, 1);
  if (beta == 0) {
    for (TC& x : c.values) x = TC(std::nan(""));
  }
  const Array<T> da(a.values), db(b.values);
  const Array<TC> dc(c.values);
  const Handle handle;
  REQUIRE(cublasGemmEx_64(handle.get, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha,
                          da.get(), type_of<T>, a.ld, db.get(), type_of<T>, b.ld, &beta, dc.get(), type_of<TC>, c.ld,
                          compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  const auto before = c;
  c.values = dc.read();
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < c.ld; ++i) {
      CAPTURE(i);
      CAPTURE(j);
      double wanted = before.at(i, j);
      if (i < m) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p) sum += a.at(i, p, ta) * b.at(p, j, tb);
        wanted = static_cast<double>(alpha) * sum + (beta == 0 ? 0 : static_cast<double>(beta) * wanted);
      }
      const double found = c.at(i, j);
      CHECK((found == static_cast<double>(TC(wanted)) || (std::isnan(found) && std::isnan(wanted))));
    }
  }
}

template <class T>
cublasStatus_t plain(cublasHandle_t handle, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                     std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc,
                     cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
  const float one = 1, zero = 0;
  return cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, type_of<T>, lda, b, type_of<T>, ldb, &zero,
                         c, type_of<T>, ldc, compute, CUBLAS_GEMM_DEFAULT);
}

}  // namespace

TEST_CASE("products of all transposes, types, alpha and beta, with padded leading dimensions") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const double beta : {0.0, 1.0, -0.5}) {
        CAPTURE(ta);
        CAPTURE(tb);
        CAPTURE(beta);
        const auto b = static_cast<float>(beta);
        check_product<float, float, float>(ta, tb, 1.0F, b, CUBLAS_COMPUTE_32F);
        check_product<float, float, float>(ta, tb, -2.0F, b, CUBLAS_COMPUTE_32F_PEDANTIC);
        check_product<double, double, double>(ta, tb, 0.5, beta, CUBLAS_COMPUTE_64F);
        check_product<bf16, bf16, float>(ta, tb, 1.0F, b, CUBLAS_COMPUTE_32F);
        check_product<bf16, float, float>(ta, tb, 1.0F, b, CUBLAS_COMPUTE_32F);
      }
    }
  }
}

TEST_CASE("planted: a swapped leading dimension is refused, leaves its memory, or gives another result") {
  const Planted planted;
  const Handle handle;
  const Array<float> a(2 * 5), b(5 * 3), c(2 * 3);
  CHECK(plain(handle.get, 2, 3, 5, a.get(), 2, b.get(), 5, c.get(), 2) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(plain(handle.get, 2, 3, 5, a.get(), 2, b.get(), 3, c.get(), 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(plain(handle.get, 2, 3, 5, a.get(), 5, b.get(), 5, c.get(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK_FAULT_SAYS("A of batch element 0");
}

TEST_CASE("arguments are checked as cuBLAS does") {
  const Handle handle;
  const Array<float> a(4);
  float* p = a.get();
  CHECK(plain(handle.get, -1, 1, 1, p, 1, p, 1, p, 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(plain(handle.get, 2, 2, 2, p, 1, p, 2, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(plain(handle.get, 2, 2, 2, p, 2, p, 2, p, 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(plain(handle.get, 0, 2, 2, p, 0, p, 2, p, 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(plain(handle.get, 0, 2, 2, p, 1, p, 2, p, 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(plain<double>(handle.get, 1, 1, 1, nullptr, 1, nullptr, 1, nullptr, 1) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(plain(handle.get, 1, 1, 1, p, 1, p, 1, p, 1, CUBLAS_COMPUTE_16F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(plain(nullptr, 1, 1, 1, p, 1, p, 1, p, 1) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetPointerMode(handle.get, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cublasSetWorkspace(handle.get, p, 16) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetWorkspace(handle.get, p, 17) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(std::string(cublasGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED)) == "CUBLAS_STATUS_NOT_SUPPORTED");
}

TEST_CASE("k of zero makes zeros, whatever C was; a product runs in its stream") {
  const Handle handle;
  cudaStream_t stream = nullptr;
  REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cublasSetStream(handle.get, stream) == CUBLAS_STATUS_SUCCESS);
  const Array<float> a(4), c(4);
  REQUIRE(plain(handle.get, 2, 2, 0, a.get(), 2, a.get(), 1, c.get(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(std::isnan(c.read()[0]));
  REQUIRE_CUDA(cudaStreamSynchronize(stream));
  CHECK(c.read() == std::vector<float>(4, 0));
  REQUIRE_CUDA(cudaStreamDestroy(stream));
}

TEST_CASE("batches: strides, and one of zero") {
  const Handle handle;
  const float one = 1, zero = 0;
  const Array<float> a(ascending(3 * 4)), b(std::vector<float>{1, 2}), c(3 * 2);
  const auto multiply = [&](std::int64_t batch) {
    return cublasGemmStridedBatchedEx_64(handle.get, CUBLAS_OP_N, CUBLAS_OP_N, 2, 1, 2, &one, a.get(), CUDA_R_32F, 2, 4,
                                         b.get(), CUDA_R_32F, 2, 0, &zero, c.get(), CUDA_R_32F, 2, 2, batch,
                                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  CHECK(multiply(-1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(0) == CUBLAS_STATUS_SUCCESS);
  CHECK(multiply(3) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<float>{4, 7, 16, 19, 28, 31});
}

TEST_CASE("planted: host pointers as matrices") {
  const Planted planted;
  const Handle handle;
  float host[4] = {};
  const Array<float> a(4);
  REQUIRE(plain(handle.get, 2, 2, 2, a.get(), 2, host, 2, a.get(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK_FAULT_SAYS("not device memory");
}
