#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "support.hpp"

namespace {

__global__ void write_at(float* p, long long i, float value) { p[i] = value; }
__global__ void copy_from(float* out, const float* p, long long i) { *out = p[i]; }
__global__ void double_all(float* out, const float* in, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
__global__ void double_all_but_last(float* out, const float* in, unsigned n) { double_all(out, in, n - 1); }
[[maybe_unused]] __global__ void load_float4(float* out, const float* in) {
  const float4 v = *reinterpret_cast<const float4*>(in);
  out[0] = v.x + v.y + v.z + v.w;
}
[[maybe_unused]] __global__ void copy_float4(float* out, const float* in) {
  *reinterpret_cast<float4*>(out) = *reinterpret_cast<const float4*>(in);
}
__global__ void copy_float2(float* out, const float* in) {
  const auto* p = reinterpret_cast<const float2*>(in);
  out[0] = p->x + p->y;
}
__global__ void ldg_float4(float* out, const float* in) {
  const float4 v = __ldg(reinterpret_cast<const float4*>(in));
  out[0] = v.x + v.y + v.z + v.w;
}

float static_value = 1;

}  // namespace

TEST_CASE("fresh memory is NaN; addresses are multiples of 256; sizes of one byte and of none") {
  const Array<float> a(33);
  for (const float x : a.read()) CHECK(std::isnan(x));
  CHECK(reinterpret_cast<unsigned long long>(a.get()) % 256 == 0);
  void* p = &p;
  REQUIRE_CUDA(cudaMalloc(&p, 0));
  CHECK(p == nullptr);
  REQUIRE_CUDA(cudaFree(nullptr));
  REQUIRE_CUDA(cudaMalloc(&p, 1));
  CHECK(cudaMemset(p, 0, 1) == cudaSuccess);
  CHECK(cudaMemset(p, 0, 2) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaFree(p));
  CHECK(cudaMalloc(&p, std::size_t{1} << 50U) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("planted: double free, foreign free, free of a middle") {
  void* p = nullptr;
  REQUIRE_CUDA(cudaMalloc(&p, 1024));
  int here = 0;
  CHECK(cudaFree(static_cast<char*>(p) + 256) == cudaErrorInvalidValue);
  CHECK(cudaFree(&here) == cudaErrorInvalidValue);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(p, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(&here) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("pointers know what they are") {
  const Array<float> a(8);
  float* pinned = nullptr;
  REQUIRE_CUDA(cudaMallocHost(&pinned, 32));
  cudaPointerAttributes attributes{};
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, a.get() + 7));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.devicePointer == a.get() + 7);
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, a.get() + 8));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, pinned + 7));
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, &attributes));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE_CUDA(cudaFreeHost(pinned));
}

TEST_CASE("copies: directions are checked, bounds too") {
  const Array<float> a(ascending(5)), b(5);
  float host[5] = {};
  CHECK(cudaMemcpy(b.get(), a.get(), 20, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(host, b.get(), 20, cudaMemcpyDefault) == cudaSuccess);
  CHECK(host[4] == 4);
  CHECK(cudaMemcpy(host, b.get(), 20, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, b.get(), 20, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, b.get(), 21, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, b.get() + 1, 20, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(nullptr, b.get(), 20, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("rectangles: three rows of two out of rows of five, into rows of four") {
  const Array<float> a(ascending(15)), b(std::size_t{12});
  REQUIRE_CUDA(cudaMemset(b.get(), 0, 48));
  REQUIRE_CUDA(cudaMemcpy2D(b.get() + 1, 16, a.get() + 2, 20, 8, 3, cudaMemcpyDeviceToDevice));
  CHECK(b.read() == std::vector<float>{0, 2, 3, 0, 0, 7, 8, 0, 0, 12, 13, 0});
  REQUIRE_CUDA(cudaMemset2DAsync(b.get() + 1, 16, 0, 4, 3));
  CHECK(b.read() == std::vector<float>{0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 13, 0});
  CHECK(cudaMemcpy2D(b.get() + 3, 16, a.get(), 20, 8, 3, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2D(b.get(), 16, a.get(), 20, 20, 2, cudaMemcpyDeviceToDevice) == cudaErrorInvalidPitchValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("planted: writes out of bounds, just and far") {
  for (const long long i : {5LL, -1LL, 64LL, 1LL << 20, -(1LL << 20)}) {
    CAPTURE(i);
    const Planted planted;
    const Array<float> a(5);
    REQUIRE(run({1, 1}, write_at, a.get(), 4, 1.0F) == cudaSuccess);
    CHECK(run({1, 1}, write_at, a.get(), i, 1.0F) == cudaErrorIllegalAddress);
    CHECK_FAULT_SAYS("the allocation of 20 bytes");
  }
}

TEST_CASE("planted: a read out of bounds: just behind the end AddressSanitizer sees it, far behind it always faults") {
  const Planted planted;
  const Array<float> a(ascending(5)), out(1);
  REQUIRE(run({1, 1}, copy_from, out.get(), a.get(), 4) == cudaSuccess);
  const cudaError_t error = run({1, 1}, copy_from, out.get(), a.get(), 5);
  if (with_asan()) {
    CHECK(error == cudaErrorIllegalAddress);
    CHECK_FAULT_SAYS("0 bytes after the end of the allocation of 20 bytes");
  } else {
    CHECK(error == cudaSuccess);
    CHECK(std::isnan(out.read()[0]));
    CHECK(run({1, 1}, copy_from, out.get(), a.get(), 64) == cudaErrorIllegalAddress);
    CHECK_FAULT_SAYS("(a read)");
  }
}

TEST_CASE("planted: an element of the output is not written") {
  const Array<float> in(ascending(7)), out(7);
  REQUIRE_CUDA(run({1, 8}, double_all, out.get(), in.get(), 7U));
  CHECK(out.read()[6] == 12);
  const Array<float> faulty(7);
  REQUIRE_CUDA(run({1, 8}, double_all_but_last, faulty.get(), in.get(), 7U));
  CHECK(faulty.read()[5] == 10);
  CHECK(std::isnan(faulty.read()[6]));
}

// clang++ checks accesses to members, but no copy of a whole struct. g++ checks both.
TEST_CASE("planted: misaligned vector loads") {
  std::vector<void (*)(float*, const float*)> kernels{copy_float2, ldg_float4};
#if !defined(__clang__)
  kernels.push_back(copy_float4);
  kernels.push_back(load_float4);
#endif
  for (const auto kernel : kernels) {
    const Planted planted;
    const Array<float> in(ascending(8)), out(4);
    REQUIRE(run({1, 1}, kernel, out.get(), in.get() + 4) == cudaSuccess);
    CHECK(run({1, 1}, kernel, out.get(), in.get() + 1) == cudaErrorMisalignedAddress);
    CHECK_FAULT_SAYS("misaligned access");
  }
}

TEST_CASE("planted: host pointers passed to a kernel") {
  std::vector<float> small(8), large(1 << 20);
  float on_stack[8] = {};
  float* pinned = nullptr;
  REQUIRE_CUDA(cudaMallocHost(&pinned, 32));
  for (float* p : {small.data(), large.data(), on_stack, pinned}) {
    const Planted planted;
    const Array<float> out(1);
    CHECK(run({1, 1}, write_at, p, 0, 1.0F) == cudaErrorIllegalAddress);
    REQUIRE(cudaDeviceReset() == cudaSuccess);
    const std::vector<float> later(64, 1.0F);  // after the device process began
    const Array<float> out2(1);
    CHECK(run({1, 1}, copy_from, out2.get(), later.data(), 0) == cudaErrorIllegalAddress);
  }
}

// Variables of static storage exist in the device process too, as copies: a kernel's writes never reach the host.
TEST_CASE("planted: a host variable of static storage passed to a kernel stays as it was") {
  CHECK(run({1, 1}, write_at, &static_value, 0, 2.0F) == cudaSuccess);
  CHECK(static_value == 1);
}

TEST_CASE("planted: use after free") {
  const Planted planted;
  float* p = nullptr;
  REQUIRE(cudaMalloc(&p, 64) == cudaSuccess);
  REQUIRE(run({1, 1}, write_at, p, 0, 1.0F) == cudaSuccess);
  REQUIRE(cudaFree(p) == cudaSuccess);
  CHECK(run({1, 1}, write_at, p, 0, 1.0F) == cudaErrorIllegalAddress);
  CHECK_FAULT_SAYS("in freed memory");
}

TEST_CASE("planted: the host reads device memory") {
  const Array<float> a(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    ::_exit(*const_cast<volatile float*>(a.get()) == 0 ? 1 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}
