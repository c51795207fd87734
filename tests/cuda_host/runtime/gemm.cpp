#include "gemm.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "memory.hpp"
#include "process.hpp"

namespace cuda_host {

std::int64_t Matrix::element_bytes() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

namespace {

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

std::uint16_t to_bfloat16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(u >> 16U | 0x40U);
  return static_cast<std::uint16_t>((u + 0x7fffU + (u >> 16U & 1U)) >> 16U);
}

template <class T>
T read_as(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class Acc>
Acc load(const unsigned char* at, cudaDataType type) {
  if (type == CUDA_R_64F) return static_cast<Acc>(read_as<double>(at));
  return static_cast<Acc>(type == CUDA_R_32F ? read_as<float>(at) : from_bfloat16(read_as<std::uint16_t>(at)));
}

template <class Acc>
void store(unsigned char* at, cudaDataType type, Acc value) {
  if (type == CUDA_R_64F) {
    const auto v = static_cast<double>(value);
    std::memcpy(at, &v, sizeof v);
  } else if (type == CUDA_R_32F) {
    const auto v = static_cast<float>(value);
    std::memcpy(at, &v, sizeof v);
  } else {
    const std::uint16_t v = to_bfloat16(static_cast<float>(value));
    std::memcpy(at, &v, sizeof v);
  }
}

unsigned char* element(const Matrix& x, std::int64_t batch, std::int64_t row, std::int64_t column) {
  return host_view(x.address) + (batch * x.stride + column * x.ld + row) * x.element_bytes();
}

/// op(X) with its rows together, in the computing type.
template <class Acc>
std::vector<Acc> pack(const Matrix& x, std::int64_t batch, bool transpose) {
  std::vector<Acc> packed(static_cast<std::size_t>(x.rows * x.columns));
  for (std::int64_t j = 0; j < x.columns; ++j) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const std::int64_t at = transpose ? i * x.columns + j : j * x.rows + i;
      packed[static_cast<std::size_t>(at)] = load<Acc>(element(x, batch, i, j), x.type);
    }
  }
  return packed;
}

/// sums[i] over all p of a[i, p] * b[p], p ascending.
template <class Acc>
void product_column(std::int64_t m, std::int64_t k, const Acc* a, const Acc* b, Acc* sums) {
  for (std::int64_t i = 0; i < m; ++i) sums[i] = 0;
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t i = 0; i < m; ++i) sums[i] = std::fma(a[p * m + i], b[p], sums[i]);
  }
}

template <class Acc>
void run_one(const Gemm& g, std::int64_t batch) {
  const std::vector<Acc> a = pack<Acc>(g.a, batch, g.transpose_a), b = pack<Acc>(g.b, batch, g.transpose_b);
  std::vector<Acc> sums(static_cast<std::size_t>(g.m));
  const auto alpha = static_cast<Acc>(g.alpha), beta = static_cast<Acc>(g.beta);
  for (std::int64_t j = 0; j < g.n; ++j) {
    product_column(g.m, g.k, a.data(), b.data() + j * g.k, sums.data());
    for (std::int64_t i = 0; i < g.m; ++i) {
      unsigned char* c = element(g.c, batch, i, j);
      const Acc sum = sums[static_cast<std::size_t>(i)];
      store<Acc>(c, g.c.type, beta == 0 ? alpha * sum : std::fma(alpha, sum, beta * load<Acc>(c, g.c.type)));
    }
  }
}

cudaError_t check(const char* name, const Matrix& x, std::int64_t batch) {
  if (x.empty()) return cudaSuccess;
  const auto element_bytes = static_cast<std::uint64_t>(x.element_bytes());
  if (x.address % element_bytes != 0)
    return report(cudaErrorMisalignedAddress, std::string("cublasGemm: ") + name + " is misaligned");
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::uint64_t begin = x.address + static_cast<std::uint64_t>(i * x.stride) * element_bytes;
    const std::uint64_t bytes = static_cast<std::uint64_t>((x.columns - 1) * x.ld + x.rows) * element_bytes;
    if (!is_live(begin, bytes))
      return report(cudaErrorIllegalAddress, std::string("cublasGemm: ") + name + " of batch element " +
                                                 std::to_string(i) + " takes " + std::to_string(bytes) +
                                                 " bytes and begins " + describe(begin));
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t run_gemm(const Gemm& g) {
  if (g.c.empty() || g.batch == 0) return cudaSuccess;
  if (const cudaError_t error = check("A", g.a, g.batch)) return error;
  if (const cudaError_t error = check("B", g.b, g.batch)) return error;
  if (const cudaError_t error = check("C", g.c, g.batch)) return error;
  for (std::int64_t i = 0; i < g.batch; ++i) g.in_double ? run_one<double>(g, i) : run_one<float>(g, i);
  return cudaSuccess;
}

}  // namespace cuda_host
