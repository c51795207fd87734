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
  const double warps = milliseconds([&] { REQUIRE_CUDA(run({4096, 256}, warp_sums, out.get(), in.get())); });
  CHECK(out.read()[n - 1] == 32);
  const double empty = milliseconds([&] {
    for (int i = 0; i < 1000; ++i) REQUIRE_CUDA(run({1, 32}, nothing));
  });
  MESSAGE("a million threads: " << threads << " ms; 4096 blocks of 256 threads with warp sums: " << warps
                                << " ms; an empty launch: " << empty << " us");
}
