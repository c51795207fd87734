#include <algorithm>

#include "support.hpp"

namespace {

__global__ void set(int* out, int value) { *out = value; }
__global__ void add(int* out, const int* in, int value) { *out = *in + value; }

struct Streams {
  Streams() {
    for (cudaStream_t& s : handles) REQUIRE_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  }
  ~Streams() {
    for (const cudaStream_t s : handles) static_cast<void>(cudaStreamDestroy(s));
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  cudaStream_t handles[2];
};

struct Event {
  explicit Event(unsigned flags = cudaEventDisableTiming) { REQUIRE_CUDA(cudaEventCreateWithFlags(&handle, flags)); }
  ~Event() { static_cast<void>(cudaEventDestroy(handle)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle;
};

}  // namespace

TEST_CASE("planted: the host does not wait for a copy to it") {
  const Streams s;
  const Array<int> a(std::vector<int>{1});
  int host = 0;
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 5));
  REQUIRE_CUDA(cudaMemcpyAsync(&host, a.get(), sizeof host, cudaMemcpyDeviceToHost, s.handles[0]));
  CHECK(host == 0);  // what the faulty program would read
  CHECK(cudaStreamQuery(s.handles[0]) == cudaErrorNotReady);
  REQUIRE_CUDA(cudaStreamSynchronize(s.handles[0]));
  CHECK(host == 5);
  CHECK(cudaStreamQuery(s.handles[0]) == cudaSuccess);
}

TEST_CASE("pageable memory is read at the call, pinned memory when the copy runs") {
  const Streams s;
  const Array<int> a(1), b(1);
  int pageable = 1;
  int* pinned = nullptr;
  REQUIRE_CUDA(cudaMallocHost(&pinned, sizeof(int)));
  *pinned = 1;
  REQUIRE_CUDA(cudaMemcpyAsync(a.get(), &pageable, sizeof(int), cudaMemcpyHostToDevice, s.handles[0]));
  REQUIRE_CUDA(cudaMemcpyAsync(b.get(), pinned, sizeof(int), cudaMemcpyHostToDevice, s.handles[0]));
  pageable = *pinned = 2;
  REQUIRE_CUDA(cudaStreamSynchronize(s.handles[0]));
  CHECK(a.read()[0] == 1);
  CHECK(b.read()[0] == 2);
  REQUIRE_CUDA(cudaFreeHost(pinned));
}

TEST_CASE("an event orders two streams; planted: without it the second comes too early") {
  for (const bool ordered : {true, false}) {
    const Streams s;
    const Event ready;
    const Array<int> a(std::vector<int>{0}), b(1);
    REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 7));
    REQUIRE_CUDA(cudaEventRecord(ready.handle, s.handles[0]));
    CHECK(cudaEventQuery(ready.handle) == cudaErrorNotReady);
    if (ordered) REQUIRE_CUDA(cudaStreamWaitEvent(s.handles[1], ready.handle));
    REQUIRE_CUDA(launch({1, 1, 0, s.handles[1]}, add, b.get(), a.get(), 1));
    int found = 0;
    REQUIRE_CUDA(cudaMemcpyAsync(&found, b.get(), sizeof found, cudaMemcpyDeviceToHost, s.handles[1]));
    REQUIRE_CUDA(cudaStreamSynchronize(s.handles[1]));
    if (ordered) CHECK(found == 8);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    CHECK(cudaEventQuery(ready.handle) == cudaSuccess);
  }
  const Streams s;
  const Array<int> a(std::vector<int>{0}), b(1);
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 7));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[1]}, add, b.get(), a.get(), 1));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  CHECK(b.read()[0] == 1);
}

TEST_CASE("the default stream waits for blocking streams and they for it") {
  cudaStream_t blocking = nullptr;
  REQUIRE_CUDA(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
  const Array<int> a(std::vector<int>{0}), b(1), c(1);
  REQUIRE_CUDA(launch({1, 1, 0, blocking}, set, a.get(), 1));
  REQUIRE_CUDA(launch({1, 1}, add, b.get(), a.get(), 1));
  REQUIRE_CUDA(launch({1, 1, 0, blocking}, add, c.get(), b.get(), 1));
  REQUIRE_CUDA(cudaStreamDestroy(blocking));  // its work is done all the same
  CHECK(cudaStreamDestroy(blocking) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
  CHECK(c.read()[0] == 3);
}

TEST_CASE("time passes between events") {
  const Streams s;
  const Event begin(cudaEventDefault), end(cudaEventDefault), untimed;
  const Array<int> a(1);
  float time = -1;
  CHECK(cudaEventElapsedTime(&time, begin.handle, end.handle) == cudaErrorInvalidResourceHandle);
  REQUIRE_CUDA(cudaEventRecord(begin.handle, s.handles[0]));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 1));
  REQUIRE_CUDA(cudaEventRecord(end.handle, s.handles[0]));
  CHECK(cudaEventElapsedTime(&time, begin.handle, end.handle) == cudaErrorNotReady);
  REQUIRE_CUDA(cudaEventSynchronize(end.handle));
  REQUIRE_CUDA(cudaEventElapsedTime(&time, begin.handle, end.handle));
  CHECK(time > 0);
  CHECK(cudaEventElapsedTime(&time, begin.handle, untimed.handle) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("memory of a stream: freed in its order") {
  const Streams s;
  int* p = nullptr;
  REQUIRE_CUDA(cudaMallocAsync(&p, sizeof(int), s.handles[0]));
  const auto live = cuda_host::live_allocations();
  const Array<int> out(1);
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, p, 3));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, add, out.get(), p, 1));
  REQUIRE_CUDA(cudaFreeAsync(p, s.handles[0]));
  CHECK(cuda_host::live_allocations() == live + 1);
  REQUIRE_CUDA(cudaStreamSynchronize(s.handles[0]));
  CHECK(cuda_host::live_allocations() == live);
  CHECK(out.read()[0] == 4);
}

TEST_CASE("planted: a kernel after cudaFreeAsync") {
  const Planted planted;
  const Streams s;
  int* p = nullptr;
  REQUIRE_CUDA(cudaMallocAsync(&p, sizeof(int), s.handles[0]));
  REQUIRE_CUDA(cudaFreeAsync(p, s.handles[0]));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, p, 3));  // the error comes when somebody waits
  CHECK(cudaStreamSynchronize(s.handles[0]) == cudaErrorIllegalAddress);
}

TEST_CASE("cudaFree waits for the work that uses the memory") {
  const Streams s;
  int* p = nullptr;
  REQUIRE_CUDA(cudaMalloc(&p, sizeof(int)));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, p, 3));
  CHECK(cudaFree(p) == cudaSuccess);
}

TEST_CASE("waits of the host are counted: for work, and for memory that is not pinned") {
  const Streams s;
  const Event reached;
  const Array<int> a(std::vector<int>{0});
  int* pinned = nullptr;
  int pageable = 0;
  REQUIRE_CUDA(cudaMallocHost(&pinned, sizeof(int)));
  auto before = cuda_host::waits();
  const auto waits = [&] {
    const auto now = cuda_host::waits(), found = now - before;
    before = now;
    return found;
  };
  REQUIRE_CUDA(cudaMemcpyAsync(a.get(), pinned, sizeof(int), cudaMemcpyHostToDevice, s.handles[0]));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 5));
  REQUIRE_CUDA(cudaMemcpyAsync(pinned, a.get(), sizeof(int), cudaMemcpyDeviceToHost, s.handles[0]));
  REQUIRE_CUDA(cudaEventRecord(reached.handle, s.handles[0]));
  CHECK(waits() == 0);
  REQUIRE_CUDA(cudaEventSynchronize(reached.handle));
  CHECK(waits() == 1);
  REQUIRE_CUDA(cudaEventSynchronize(reached.handle));  // it is reached
  REQUIRE_CUDA(cudaStreamSynchronize(s.handles[0]));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  CHECK(waits() == 0);
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[0]}, set, a.get(), 6));
  REQUIRE_CUDA(launch({1, 1, 0, s.handles[1]}, set, a.get(), 7));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  CHECK(waits() == 1);
  REQUIRE_CUDA(cudaMemcpyAsync(&pageable, a.get(), sizeof(int), cudaMemcpyDeviceToHost, s.handles[0]));
  CHECK(waits() == 1);
  REQUIRE_CUDA(cudaMemcpyAsync(a.get(), &pageable, sizeof(int), cudaMemcpyHostToDevice, s.handles[0]));
  CHECK(waits() == 1);
  REQUIRE_CUDA(cudaStreamSynchronize(s.handles[0]));
  CHECK(waits() == 1);
  REQUIRE_CUDA(cudaMemcpy(&pageable, a.get(), sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(waits() == 1);
  const auto allocations = cuda_host::allocations();
  REQUIRE_CUDA(cudaFreeHost(pinned));
  REQUIRE_CUDA(cudaMallocHost(&pinned, sizeof(int)));
  CHECK(cuda_host::allocations() == allocations + 1);
  REQUIRE_CUDA(cudaFreeHost(pinned));
}
