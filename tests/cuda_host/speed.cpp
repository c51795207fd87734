#include <cublas_v2.h>

#include <chrono>

#include "support.hpp"

// Figures, not tests: how long the stand-in takes for large launches.

namespace {

__global__ void scale(float* out, const float* in, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}

__global__ void warp_sums(float* out, const float* in) {
  float x = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void nothing() {}
__global__ void set_one(float* out) { out[0] = 1; }

template <class F>
double milliseconds(F f) {
  f();
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("large launches") {
  constexpr unsigned n = 1U << 20U;
  const Array<float> in(std::vector<float>(n, 1)), out(n);
  const double threads = milliseconds([&] { REQUIRE_CUDA(run({n / 256, 256}, scale, out.get(), in.get(), n)); });
  CHECK(out.read()[n - 1] == 2);
  const unsigned blocks = with_asan() ? 256 : 4096;  // whose switches between stacks are slow
  const double warps = milliseconds([&] { REQUIRE_CUDA(run({blocks, 256}, warp_sums, out.get(), in.get())); });
  CHECK(out.read()[blocks * 256 - 1] == 32);
  const double empty = milliseconds([&] {
    for (int i = 0; i < 1000; ++i) REQUIRE_CUDA(run({1, 32}, nothing));
  });
  const Array<float> arena(std::size_t{64} << 20U);
  const double beside = milliseconds([&] { REQUIRE_CUDA(run({1, 1}, set_one, arena.get())); });
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  const double product = milliseconds([&] {
    REQUIRE(cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_T, 256, 256, 256, &one, in.get(), CUDA_R_32F, 256, in.get(),
                            CUDA_R_32F, 256, &zero, out.get(), CUDA_R_32F, 256, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    REQUIRE_CUDA(cudaDeviceSynchronize());
  });
  cublasDestroy(handle);
  MESSAGE("one element written of 256 MiB: " << beside << " ms; a product of 256 x 256 x 256: " << product << " ms");
  MESSAGE("a million threads: " << threads << " ms; " << blocks << " blocks of 256 threads with warp sums: " << warps
                                << " ms; an empty launch: " << empty << " us");
}
