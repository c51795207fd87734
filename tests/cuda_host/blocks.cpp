#include <cmath>
#include <cstdint>

#include "support.hpp"

namespace {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

template <int n>
__global__ void reverse(float* out, const float* in) {
  __shared__ float tile[n];
  const unsigned t = threadIdx.x;
  tile[t] = in[blockIdx.x * n + t];
  __syncthreads();
  out[blockIdx.x * n + t] = tile[n - 1 - t];
}

template <int n>
__global__ void reverse_without_barrier(float* out, const float* in) {
  __shared__ float tile[n];
  const unsigned t = threadIdx.x;
  tile[t] = in[blockIdx.x * n + t];
  out[blockIdx.x * n + t] = tile[n - 1 - t];
}

__global__ void reverse_dynamic(float* out, const float* in) {
  auto* tile = reinterpret_cast<float*>(dynamic_shared);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void write_dynamic(int i) { dynamic_shared[i] = 1; }
__global__ void read_dynamic(unsigned char* out, int i) { *out = dynamic_shared[i]; }

__device__ float warp_sum(float x, unsigned lanes) {
  const unsigned lane = threadIdx.x % 32, mask = lanes == 32 ? 0xffffffffU : (1U << lanes) - 1U;
  for (unsigned step = 16; step > 0; step /= 2) {
    const float other = __shfl_down_sync(mask, x, step);
    if (lane + step < lanes) x += other;
  }
  return x;
}

/// One row per block, any number of threads and columns.
__global__ void row_sum(float* out, const float* in, std::int64_t columns) {
  __shared__ float partial[32];
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += in[blockIdx.x * columns + i];
  const unsigned warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
  const unsigned rest = blockDim.x - warp * 32, lanes = rest < 32 ? rest : 32;
  sum = warp_sum(sum, lanes);
  if (threadIdx.x % 32 == 0) partial[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < warps; ++w) sum += partial[w];
  out[blockIdx.x] = sum;
}

__global__ void vote(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const int odd = __syncthreads_count(t % 2), any = __syncthreads_or(t == 5), all = __syncthreads_and(t < 40);
  if (t == 0) {
    out[0] = odd;
    out[1] = any;
    out[2] = all;
  }
}

__global__ void read_unwritten_shared(float* out) {
  __shared__ float tile[8];
  if (threadIdx.x < 7) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void leave_before_barrier(int* out) {
  if (threadIdx.x >= 3) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void barrier_against_shuffle(int* out) {
  if (threadIdx.x == 0) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(0xffffffffU, 1, 0);
  }
}

__global__ void last_block_wins(int* out) { *out = static_cast<int>(blockIdx.x); }
__global__ void count_atomically(int* out, unsigned long long* histogram) {
  atomicAdd(out, 1);
  atomicAdd(&histogram[threadIdx.x % 3], 2ULL);
}
__global__ void add_floats_atomically(float* out) { atomicAdd(out, 1.0F / static_cast<float>(3 + threadIdx.x)); }
__global__ void extremes(int* least, unsigned* most) {
  atomicMin(least, static_cast<int>(threadIdx.x) - 5);
  atomicMax(most, threadIdx.x);
}

__global__ void shared_counter(int* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = count;
}

__global__ void tell_of_tiles(int each) {
  for (int i = 0; i < each && threadIdx.x == 0; ++i) cuda_host::count_tile();
}

CUDA_HOST_DYNAMIC_SHARED(unsigned char, dynamic_shared);

}  // namespace

TEST_CASE("shared memory behind a barrier") {
  const Array<float> in(ascending(3 * 97)), out(3 * 97);
  REQUIRE_CUDA(run({3, 97}, reverse<97>, out.get(), in.get()));
  const auto values = out.read();
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == static_cast<float>(i / 97 * 97 + 96 - i % 97));
}

TEST_CASE("planted: a missing barrier, also within one warp") {
  for (const int n : {97, 32}) {
    const Planted planted;
    const Array<float> in(ascending(97)), out(97);
    const auto kernel = n == 97 ? reverse_without_barrier<97> : reverse_without_barrier<32>;
    CHECK(run({1, static_cast<unsigned>(n)}, kernel, out.get(), in.get()) == cudaErrorLaunchFailure);
    CHECK_FAULT_SAYS("depends on the order");
    CHECK_FAULT_SAYS("the allocation of 388 bytes");
  }
}

TEST_CASE("dynamic shared memory ends where the launch says") {
  const Array<float> in(ascending(33)), out(33);
  REQUIRE_CUDA(run({1, 33, 33 * sizeof(float)}, reverse_dynamic, out.get(), in.get()));
  CHECK(out.read()[0] == 32);
  for (const int i : {100, 4096, 60000}) {
    const Planted planted;
    REQUIRE(run({1, 1, 100}, write_dynamic, 99) == cudaSuccess);
    CHECK(run({1, 1, 100}, write_dynamic, i) == cudaErrorIllegalAddress);
  }
  const Planted planted;
  const Array<unsigned char> byte(1);
  CHECK(run({1, 1, 100}, read_dynamic, byte.get(), 100) == (with_asan() ? cudaErrorIllegalAddress : cudaSuccess));
}

TEST_CASE("planted: shared memory that nobody wrote") {
  const Planted planted;
  const Array<float> out(8);
  REQUIRE(run({1, 7}, read_unwritten_shared, out.get()) == cudaSuccess);
  CHECK(run({1, 8}, read_unwritten_shared, out.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("uninitialised shared memory");
}

TEST_CASE("rows are summed by blocks of odd sizes") {
  for (const unsigned threads : {1U, 31U, 32U, 33U, 96U, 1000U, 1024U}) {
    for (const std::size_t columns : {std::size_t{1}, std::size_t{31}, std::size_t{4097}}) {
      CAPTURE(threads);
      const Array<float> in(std::vector<float>(3 * columns, 1)), out(3);
      REQUIRE_CUDA(run({3, threads}, row_sum, out.get(), in.get(), columns));
      CHECK(out.read() == std::vector<float>(3, static_cast<float>(columns)));
    }
  }
}

TEST_CASE("barriers that count and vote") {
  const Array<int> out(3);
  REQUIRE_CUDA(run({1, 41}, vote, out.get()));
  CHECK(out.read() == std::vector<int>{20, 1, 0});
  REQUIRE_CUDA(run({1, 5}, vote, out.get()));
  CHECK(out.read() == std::vector<int>{2, 0, 1});
}

TEST_CASE("threads that exited are not waited for at a barrier") {
  const Array<int> out(3);
  REQUIRE_CUDA(run({1, 70}, leave_before_barrier, out.get()));
  CHECK(out.read() == std::vector<int>{1, 1, 1});
}

TEST_CASE("planted: barriers that never meet") {
  {
    const Planted planted;
    REQUIRE(run({1, 32}, two_barriers) == cudaSuccess);
    CHECK(run({1, 64}, two_barriers) == cudaErrorLaunchFailure);
    CHECK_FAULT_SAYS("different barriers");
    CHECK_FAULT_SAYS("blocks.cpp:");
  }
  const Planted planted;
  const Array<int> out(32);
  CHECK(run({1, 32}, barrier_against_shuffle, out.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("deadlock");
}

TEST_CASE("planted: a race between blocks on one element") {
  const Planted planted;
  const Array<int> out(1);
  REQUIRE(run({1, 1}, last_block_wins, out.get()) == cudaSuccess);
  CHECK(run({2, 1}, last_block_wins, out.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("depends on the order");
}

TEST_CASE("atomics of integers are exact") {
  const Array<int> out(std::vector<int>{0});
  const Array<unsigned long long> histogram(std::vector<unsigned long long>(3, 0));
  REQUIRE_CUDA(run({5, 33}, count_atomically, out.get(), histogram.get()));
  CHECK(out.read()[0] == 165);
  CHECK(histogram.read() == std::vector<unsigned long long>(3, 110));
  const Array<int> least(std::vector<int>{0});
  const Array<unsigned> most(std::vector<unsigned>{0});
  REQUIRE_CUDA(run({1, 33}, extremes, least.get(), most.get()));
  CHECK(least.read()[0] == -5);
  CHECK(most.read()[0] == 32);
  const Array<int> counts(2 * 40);
  REQUIRE_CUDA(run({2, 40}, shared_counter, counts.get()));
  CHECK(counts.read() == std::vector<int>(80, 40));
}

TEST_CASE("planted: a sum of floats by atomics depends on the order") {
  const Planted planted;
  const Array<float> out(std::vector<float>{0});
  CHECK(run({1, 100}, add_floats_atomically, out.get()) == cudaErrorLaunchFailure);
}

TEST_CASE("tiles that a kernel tells of are counted once for the three runs") {
  const auto before = cuda_host::counted_tiles();
  REQUIRE_CUDA(run({3, 40}, tell_of_tiles, 5));
  CHECK(cuda_host::counted_tiles() - before == 15);
  REQUIRE_CUDA(run({2, 1}, tell_of_tiles, 1));
  CHECK(cuda_host::counted_tiles() - before == 17);
}
