#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support.hpp"

#undef NDEBUG
#include <cassert>

// The device as a process: from which thread it is made, what it knows of the program's variables, and its end.

namespace {

__device__ const float table[] = {3, 1, 4, 1, 5};
__device__ int written_by_kernels = 0;

__global__ void look_up(float* out) { out[threadIdx.x] = table[threadIdx.x]; }
__global__ void write_variable(int* out) {
  written_by_kernels = 7;
  *out = written_by_kernels;
}

template <int n>
__global__ void rotate(int* out) {
  __shared__ int slots[n];
  slots[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = slots[(threadIdx.x + 1) % n];
}

__global__ void divide(int* out, int by) { *out = 5 / by; }
__global__ void trap() { __trap(); }
__global__ void recurse(volatile int* depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(*depth);
  if (room[0] >= 0) recurse(depth);
  room[1] = room[0];
}

__global__ void assert_positive(int x) { assert(x > 0); }

int first_of_rotation() {
  const Array<int> out(50);
  REQUIRE_CUDA(run({1, 50}, rotate<50>, out.get()));
  return out.read()[0];
}

}  // namespace

TEST_CASE("__device__ variables: tables to read, and memory of the device's own") {
  const Array<float> out(5);
  REQUIRE_CUDA(run({1, 5}, look_up, out.get()));
  CHECK(out.read() == std::vector<float>{3, 1, 4, 1, 5});
  const Array<int> seen(1);
  REQUIRE_CUDA(run({1, 1}, write_variable, seen.get()));
  CHECK(seen.read()[0] == 7);
  CHECK(written_by_kernels == 0);
}

TEST_CASE("a device begun by a thread that has ended since, and used by others") {
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  int inside = 0;
  std::thread([&] { inside = first_of_rotation(); }).join();
  CHECK(inside == 1);
  CHECK(first_of_rotation() == 1);
  std::thread([&] { inside += first_of_rotation(); }).join();
  CHECK(inside == 2);
  CHECK(cudaDeviceReset() == cudaSuccess);
}

TEST_CASE("the last error is the thread's own") {
  CHECK(cudaSetDevice(5) == cudaErrorInvalidDevice);
  cudaError_t other = cudaErrorUnknown;
  std::thread([&] { other = cudaGetLastError(); }).join();
  CHECK(other == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("a fork of the program has no device") {
  REQUIRE_CUDA(cudaDeviceSynchronize());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(cudaDeviceSynchronize() == cudaErrorInitializationError ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("planted: assertion, trap, division by zero, endless recursion") {
  const auto check = [](cudaError_t wanted, const char* words, auto&& go) {
    const Planted planted;
    CAPTURE(words);
    CHECK(go() == wanted);
    CHECK_FAULT_SAYS(words);
  };
  CHECK(run({1, 1}, assert_positive, 1) == cudaSuccess);
  check(cudaErrorAssert, "x > 0", [] { return run({1, 1}, assert_positive, 0); });
  check(cudaErrorLaunchFailure, "__trap", [] { return run({1, 1}, trap); });
  check(cudaErrorIllegalAddress, "recurse", [] {
    const Array<int> depth(std::vector<int>{0});
    return run({1, 1}, recurse, depth.get());
  });
  const Planted planted;
  const Array<int> out(1);
  const cudaError_t error = run({1, 1}, divide, out.get(), 0);
  CHECK((error == cudaErrorIllegalInstruction || error == cudaErrorMisalignedAddress));  // the latter is UBSan's trap
  CHECK_FAULT_SAYS("divide");
}
