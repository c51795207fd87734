#include <cstdint>

#include "support.hpp"

namespace {

__global__ void fill(float* out, std::int64_t n, float value) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value + static_cast<float>(i);
}

/// Every thread notes where it is: all six indices in a mixed radix.
__global__ void note_place(std::uint64_t* out) {
  const std::uint64_t block =
      blockIdx.x + std::uint64_t{gridDim.x} * (blockIdx.y + std::uint64_t{gridDim.y} * blockIdx.z);
  const std::uint64_t thread =
      threadIdx.x + std::uint64_t{blockDim.x} * (threadIdx.y + std::uint64_t{blockDim.y} * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

struct alignas(32) Wide {
  double values[4];
};
__global__ void take_mixed(double* out, char a, Wide b, short c, float4 d) {
  out[0] = static_cast<double>(a) + b.values[3] + static_cast<double>(c) + static_cast<double>(d.w);
}

template <class F>
__global__ void apply(float* out, F f) {
  out[threadIdx.x] = f(static_cast<float>(threadIdx.x));
}

__global__ void nothing() {}

__global__ void forever(volatile int* flag) {
  while (*flag != 1) {
  }
}

}  // namespace

TEST_CASE("a kernel fills an array of odd size, and only it") {
  for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{4097}}) {
    const Array<float> a(n);
    REQUIRE_CUDA(run({static_cast<unsigned>((n + 127) / 128), 128}, fill, a.get(), n, 0.5F));
    const auto values = a.read();
    for (std::size_t i = 0; i < n; ++i) REQUIRE(values[i] == 0.5F + static_cast<float>(i));
  }
}

TEST_CASE("blocks and threads have CUDA's indices in three dimensions") {
  const Array<std::uint64_t> a(std::size_t{2} * 3 * 4 * 5 * 3 * 2);
  REQUIRE_CUDA(run({dim3(2, 3, 4), dim3(5, 3, 2)}, note_place, a.get()));
  const auto values = a.read();
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == i / 30 * 1000 + i % 30);
}

TEST_CASE("parameters of all alignments arrive as converted at the call, also lambdas and none") {
  const Array<double> out(1);
  REQUIRE_CUDA(run({1, 1}, take_mixed, out.get(), 1, Wide{{0, 0, 0, 2}}, 3, make_float4(0, 0, 0, 4)));
  CHECK(out.read()[0] == 10);
  const Array<float> values(5);
  const float scale = 3;
  const auto scaled = [scale](float x) { return scale * x; };
  REQUIRE_CUDA(run({1, 5}, apply<decltype(scaled)>, values.get(), scaled));
  CHECK(values.read() == std::vector<float>{0, 3, 6, 9, 12});
  CHECK(run({1, 1}, nothing) == cudaSuccess);
}

TEST_CASE("a launch of impossible shape is refused and nothing runs") {
  const auto launches = cuda_host::launches();
  const dim3 one(1);
  for (const Shape& shape :
       {Shape{0, 1}, Shape{1, 0}, Shape{dim3(1, 0), 1}, Shape{dim3(1, 1, 0), 1}, Shape{1, 1025}, Shape{1, dim3(32, 33)},
        Shape{1, dim3(1, 1, 65)}, Shape{dim3(1, 65536), 1}, Shape{dim3(1, 1, 65536), 1}, Shape{2147483648U, 1}}) {
    CHECK(launch(shape, nothing) == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(launch({one, one, (48U << 10U) + 1}, nothing) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, (227 << 10) + 1) ==
        cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10) == cudaSuccess);
  CHECK(launch({one, one, 227U << 10U}, nothing) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cuda_host::launches() == launches + 1);
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, nothing) == cudaErrorNotSupported);
  CHECK(launch({one, one, 0, reinterpret_cast<cudaStream_t>(&config)}, nothing) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a fault stays until the device is reset, and memory is gone with it") {
  const Planted planted;
  REQUIRE(run({1, 1}, fill, reinterpret_cast<float*>(16), 1, 0.0F) == cudaErrorIllegalAddress);
  CHECK_FAULT_SAYS("a null pointer");
  CHECK_FAULT_SAYS("fill");
  CHECK_FAULT_SAYS("(a write)");
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
  CHECK(launch({1, 1}, nothing) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cuda_host::live_allocations() == 0);
  CHECK(run({1, 1}, nothing) == cudaSuccess);
}

TEST_CASE("planted: a kernel that does not end") {
  const Planted planted;
  cuda_host::set_launch_limit(1);
  const Array<int> flag(std::vector<int>{0});
  CHECK(run({1, 1}, forever, flag.get()) == cudaErrorLaunchTimeout);
  CHECK_FAULT_SAYS("does not end");
  cuda_host::set_launch_limit(120);
}

TEST_CASE("a machine without a device says so") {
  cuda_host::set_device_count(0);
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  cuda_host::set_device_count(1);
  CHECK(cudaGetLastError() == cudaErrorNoDevice);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(std::string(cudaGetErrorName(cudaGetLastError())) == "cudaErrorInvalidDevice");
  CHECK(std::string(cudaGetErrorString(cudaErrorNoDevice)) == "no CUDA-capable device is detected");
}
