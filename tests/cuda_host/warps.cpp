#include "support.hpp"

namespace {

constexpr unsigned all = 0xffffffffU;

template <class T>
__global__ void shuffles(T* out, int width) {
  const unsigned t = threadIdx.x;
  const T x = static_cast<T>(t) + static_cast<T>(1);
  out[t] = __shfl_sync(all, x, 3, width);
  out[32 + t] = __shfl_up_sync(all, x, 2, width);
  out[64 + t] = __shfl_down_sync(all, x, 2, width);
  out[96 + t] = __shfl_xor_sync(all, x, 5, width);
}

__global__ void votes(unsigned* out) {
  const int t = static_cast<int>(threadIdx.x);
  const unsigned odd = __ballot_sync(all, t % 2);
  const int any = __any_sync(all, t == 40), some = __any_sync(all, t == 4), every = __all_sync(all, t < 31);
  if (t == 0) {
    out[0] = odd;
    out[1] = static_cast<unsigned>(any * 100 + some * 10 + every);
    out[2] = __activemask();
  }
}

/// Two halves of a warp go their own ways.
__global__ void halves(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < 16) {
    out[t] = __shfl_sync(0x0000ffffU, t, 3);
    __syncwarp(0x0000ffffU);
    out[t] += __shfl_sync(0x0000ffffU, t, 1);
  } else {
    out[t] = __shfl_sync(0xffff0000U, t, 20);
  }
}

__global__ void shuffle_with_exited(int* out) {
  if (threadIdx.x == 31) return;
  out[threadIdx.x] = __shfl_sync(all, 1, 0);
}
__global__ void exit_under_shuffle(int* out) {
  if (threadIdx.x != 0) out[threadIdx.x] = __shfl_sync(all, 1, 1);
}
__global__ void mask_without_self(int* out) { out[threadIdx.x] = __shfl_sync(0xfffffffeU, 1, 1); }
__global__ void different_masks(int* out) {
  out[threadIdx.x] = threadIdx.x == 7 ? __shfl_sync(0x000000ffU, 1, 0) : __shfl_sync(all, 1, 0);
}
__global__ void different_functions(int* out) {
  out[threadIdx.x] = threadIdx.x == 7 ? __any_sync(all, 1) : __shfl_sync(all, 1, 0);
}
__global__ void bad_width(int* out) { out[threadIdx.x] = __shfl_sync(all, 1, 0, 12); }
__global__ void value_from_outside(int* out) {
  if (threadIdx.x < 4) out[threadIdx.x] = __shfl_sync(0xfU, 1, static_cast<int>(threadIdx.x) + 1);
}

/// Lane t takes what lane t + 1 put into shared memory.
template <bool synced>
__global__ void pass_on(int* out) {
  __shared__ int slots[32];
  slots[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (synced) __syncwarp();
  out[threadIdx.x] = slots[(threadIdx.x + 1) % 32];
}

__global__ void exited_lanes_do_not_vote(unsigned* out) {
  if (threadIdx.x % 2 == 1) return;
  const unsigned lanes = __ballot_sync(all, 1);
  __syncwarp();
  out[threadIdx.x / 2] = lanes;
}

template <class T>
void check_shuffles(int width) {
  const Array<T> out(128);
  REQUIRE_CUDA(run({1, 32}, shuffles<T>, out.get(), width));
  const auto values = out.read();
  for (int t = 0; t < 32; ++t) {
    const int base = t / width * width, at = t - base;
    const int up = at >= 2 ? t - 2 : t, down = at + 2 < width ? t + 2 : t;
    const int across = (t ^ 5) < base + width ? t ^ 5 : t;
    const auto value = [&](int row) { return values[static_cast<std::size_t>(row * 32 + t)]; };
    CAPTURE(t);
    CHECK(value(0) == static_cast<T>(base + 3 % width + 1));
    CHECK(value(1) == static_cast<T>(up + 1));
    CHECK(value(2) == static_cast<T>(down + 1));
    CHECK(value(3) == static_cast<T>(across + 1));
  }
}

}  // namespace

TEST_CASE("shuffles of all types and widths") {
  for (const int width : {32, 16, 4, 1}) {
    CAPTURE(width);
    check_shuffles<int>(width);
    check_shuffles<unsigned>(width);
    check_shuffles<float>(width);
    check_shuffles<double>(width);
    check_shuffles<long long>(width);
  }
}

TEST_CASE("votes") {
  const Array<unsigned> out(3);
  REQUIRE_CUDA(run({1, 32}, votes, out.get()));
  CHECK(out.read() == std::vector<unsigned>{0xaaaaaaaaU, 10, 1});
}

TEST_CASE("parts of a warp meet by themselves") {
  const Array<int> out(32);
  REQUIRE_CUDA(run({1, 32}, halves, out.get()));
  const auto values = out.read();
  for (std::size_t t = 0; t < 32; ++t) CHECK(values[t] == (t < 16 ? 4 : 20));
}

TEST_CASE("lanes that exited or never were count for nothing in votes") {
  const Array<unsigned> out(5);
  REQUIRE_CUDA(run({1, 9}, exited_lanes_do_not_vote, out.get()));
  CHECK(out.read() == std::vector<unsigned>(5, 0x155U));
}

TEST_CASE("planted: wrong masks") {
  struct Case {
    void (*kernel)(int*);
    const char* words;
  };
  for (const Case& c :
       {Case{shuffle_with_exited, "exit"}, Case{exit_under_shuffle, "exit"},
        Case{mask_without_self, "leaves out the calling lane"}, Case{different_masks, "different masks"},
        Case{different_functions, "different warp functions"}, Case{bad_width, "width"}}) {
    const Planted planted;
    const Array<int> out(32);
    CAPTURE(c.words);
    CHECK(run({1, 32}, c.kernel, out.get()) == cudaErrorLaunchFailure);
    CHECK_FAULT_SAYS(c.words);
    CHECK_FAULT_SAYS("warps.cpp:");
  }
}

TEST_CASE("planted: a shuffle of all lanes in a block that has fewer") {
  const Planted planted;
  const Array<int> out(128);
  CHECK(run({1, 31}, shuffles<int>, out.get(), 32) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("does not exist");
}

TEST_CASE("planted: a value from a lane outside the mask") {
  const Planted planted;
  const Array<int> out(4);
  CHECK(run({1, 32}, value_from_outside, out.get()) == cudaErrorLaunchFailure);
  CHECK_FAULT_SAYS("depends on the order");
}

TEST_CASE("planted: a missing __syncwarp") {
  const Planted planted;
  const Array<int> out(32);
  REQUIRE(run({1, 32}, pass_on<true>, out.get()) == cudaSuccess);
  CHECK(out.read()[31] == 0);
  CHECK(run({1, 32}, pass_on<false>, out.get()) == cudaErrorLaunchFailure);
}
