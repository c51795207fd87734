// Products of small matrices, ldmatrix and cp.async: what is wrong with a call is said, and what has not arrived is not
// there. Where elements lie is the matter of tests/cuda/matrix_unit.cpp.
#include <cstdint>

#include "support.hpp"

namespace {

using cuda_host::cp_async_16, cuda_host::cp_async_commit_group, cuda_host::cp_async_wait_group;

__global__ void multiply(float* out, unsigned lanes) {
  float d[4] = {};
  const std::uint32_t a[4] = {0x3f803f80U, 0x3f803f80U, 0x3f803f80U, 0x3f803f80U}, b[2] = {0x3f803f80U, 0x3f803f80U};
  if (threadIdx.x < lanes) cuda_host::mma_m16n8k16(d, a, b);
  out[threadIdx.x] = d[0];
}

__global__ void two_shapes(float* out) {
  float d[4] = {};
  double e[2] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x < 16) {
    cuda_host::mma_m16n8k16(d, a, b);
  } else {
    cuda_host::mma_m8n8k4(e, 1, 1);
  }
  out[threadIdx.x] = d[0] + static_cast<float>(e[0]);
}

__global__ void load_rows(float* out, const unsigned char* outside, unsigned shift) {
  __shared__ __align__(16) unsigned char rows[32 * 16 + 16];
  for (unsigned i = 0; i < 16; ++i) rows[threadIdx.x * 16 + i] = 0;
  __syncwarp();
  std::uint32_t to[4];
  cuda_host::ldmatrix_x4(to, outside != nullptr ? outside : rows + threadIdx.x * 16 + shift, false);
  out[threadIdx.x] = static_cast<float>(to[0]);
}

enum class Copying { right, never_waited, one_group_early, not_committed, no_barrier };

/// Each thread reads what another warp's copied.
template <Copying how>
__global__ void copy(float* out, const float* in) {
  __shared__ __align__(16) float rows[2][64][4];
  const unsigned t = threadIdx.x, other = 63 - t;
  for (unsigned g = 0; g < 2; ++g) {
    cp_async_16(rows[g][t], in + (g * 64 + t) * 4, 16);
    if (how != Copying::not_committed || g == 0) cp_async_commit_group();
  }
  if (how != Copying::never_waited) cp_async_wait_group(how == Copying::one_group_early ? 1 : 0);
  if (how != Copying::no_barrier) __syncthreads();
  out[t] = rows[0][other][0] + rows[1][other][3];
}

__global__ void copy_at(float* global, unsigned to, unsigned from, unsigned bytes, bool to_global) {
  __shared__ __align__(16) float row[8];
  unsigned char* begin = reinterpret_cast<unsigned char*>(to_global ? global : row);
  cp_async_16(begin + to, reinterpret_cast<const unsigned char*>(global) + from, bytes);
  cp_async_commit_group();
  cp_async_wait_group(0);
}

__global__ void change_source(float* global) {
  __shared__ __align__(16) float row[4];
  cp_async_16(row, global, 16);
  cp_async_commit_group();
  global[1] = 7;
  cp_async_wait_group(0);
}

__global__ void fill_dynamic(float* out) {
  auto* all = static_cast<float*>(cuda_host::dynamic_shared());
  all[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = all[31 - threadIdx.x];
}

}  // namespace

TEST_CASE("16 products of ones, each lane the same") {
  const Array<float> out(32);
  REQUIRE_CUDA(run({1, 32}, multiply, out.get(), 32U));
  CHECK(out.read() == std::vector<float>(32, 16));
}

TEST_CASE("planted: a lane is missing at a matrix instruction") {
  const Planted planted;
  const Array<float> out(32);
  CHECK(run({1, 32}, multiply, out.get(), 31U) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("matrix instruction");
  static_cast<void>(cudaDeviceReset());
  const Array<float> of_fewer(32);
  CHECK(run({1, 31}, multiply, of_fewer.get(), 32U) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("a lane has exited or does not exist");
}

TEST_CASE("planted: two instructions in one warp") {
  const Planted planted;
  const Array<float> out(32);
  CHECK(run({1, 32}, two_shapes, out.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("different warp functions");
}

TEST_CASE("planted: ldmatrix of rows that are misaligned or in device memory") {
  const Array<float> good(32);
  REQUIRE_CUDA(run({1, 32}, load_rows, good.get(), static_cast<const unsigned char*>(nullptr), 0U));
  const Planted planted;
  CHECK(run({1, 32}, load_rows, good.get(), static_cast<const unsigned char*>(nullptr), 8U) ==
        cudaErrorMisalignedAddress);
  CHECK_FAULT_SAYS("ldmatrix: a row that is not at a multiple of 16 bytes");
  static_cast<void>(cudaDeviceReset());
  const Array<float> out(32);
  const auto* outside = reinterpret_cast<const unsigned char*>(out.get());
  CHECK(run({1, 32}, load_rows, out.get(), outside, 0U) == cudaErrorInvalidAddressSpace);
  CHECK_FAULT_SAYS("ldmatrix: a row outside shared memory");
}

TEST_CASE("copies that are waited for are there; their bytes are counted once") {
  const Array<float> in(ascending(512)), out(64);
  const auto before = cuda_host::copied_bytes();
  REQUIRE_CUDA(run({2, 64}, copy<Copying::right>, out.get(), in.get()));
  const auto found = out.read();
  for (std::size_t t = 0; t < 64; ++t) {
    const auto other = static_cast<float>(63 - t);
    CHECK(found[t] == 4 * other + (256 + 4 * other + 3));
  }
  CHECK(cuda_host::copied_bytes() - before == 2 * 2 * 64 * 16);
}

TEST_CASE("planted: copies read too early") {
  for (const auto kernel : {copy<Copying::never_waited>, copy<Copying::one_group_early>, copy<Copying::not_committed>,
                            copy<Copying::no_barrier>}) {
    const Planted planted;
    const Array<float> in(ascending(512)), out(64);
    CHECK(run({1, 64}, kernel, out.get(), in.get()) == cudaErrorLaunchFailure);
    CHECK_FAULT_SAYS("depends on the order");
  }
}

TEST_CASE("planted: copies from and to where they cannot be") {
  struct Case {
    unsigned to, from, bytes;
    bool to_global;
    cudaError_t error;
    const char* words;
  };
  for (const Case& c : {Case{4, 0, 16, false, cudaErrorMisalignedAddress, "a destination not at a multiple of 16"},
                        Case{0, 4, 16, false, cudaErrorMisalignedAddress, "a source not at a multiple of 16"},
                        Case{0, 0, 17, false, cudaErrorLaunchFailure, "more than 16 bytes"},
                        Case{16, 0, 16, true, cudaErrorInvalidAddressSpace, "a destination outside shared memory"}}) {
    const Planted planted;
    const Array<float> global(ascending(64));
    CAPTURE(c.words);
    CHECK(run({1, 1}, copy_at, global.get(), c.to, c.from, c.bytes, c.to_global) == c.error);
    CHECK_FAULT_SAYS(c.words);
  }
}

TEST_CASE("planted: the source of a copy in flight changes") {
  const Planted planted;
  const Array<float> global(ascending(4));
  CHECK(run({1, 1}, change_source, global.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("the source changed");
}

TEST_CASE("dynamic shared memory that the kernel asks for") {
  const Array<float> out(32);
  REQUIRE_CUDA(run({1, 32, 32 * sizeof(float)}, fill_dynamic, out.get()));
  CHECK(out.read()[0] == 31);
  const Planted planted;
  CHECK(run({1, 32, 31 * sizeof(float)}, fill_dynamic, out.get()) != cudaSuccess);
}
