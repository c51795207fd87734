#pragma once
/// \file
/// Streams, events and pinned memory that end with their owner.
/// defines: cuda::Stream, cuda::Event, cuda::PinnedMemory

#include <cstddef>
#include <memory>
#include <type_traits>

#include <k3spec/backend/cuda/error.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// A queue of work of its own, which does not wait for the default stream.
class Stream {
 public:
  /// On the current device. \throws CudaError
  Stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    handle_.reset(stream);
  }
  cudaStream_t get() const { return handle_.get(); }
  /// Returns when all work queued so far is done. \throws CudaError, also one of a kernel
  void synchronize() const { check(cudaStreamSynchronize(get()), "cudaStreamSynchronize"); }

 private:
  struct Destroy {
    void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> handle_;
};

/// A point in a stream's work.
class Event {
 public:
  /// On the current device. \throws CudaError
  Event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    handle_.reset(event);
  }
  /// This point: after all work queued on `stream` so far. \throws CudaError
  void record(cudaStream_t stream) const { check(cudaEventRecord(handle_.get(), stream), "cudaEventRecord"); }
  /// Work queued on `stream` from now on waits for this point. \throws CudaError
  void hold_back(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, handle_.get(), 0), "cudaStreamWaitEvent");
  }
  /// Returns when this point is reached. \throws CudaError
  void synchronize() const { check(cudaEventSynchronize(handle_.get()), "cudaEventSynchronize"); }
  /// Milliseconds from `earlier` to this point, both reached. \throws CudaError
  double since(const Event& earlier) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.handle_.get(), handle_.get()), "cudaEventElapsedTime");
    return static_cast<double>(ms);
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> handle_;
};

/// Memory of the host that the card copies from and to beside the host. Allocating and freeing wait for the device.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Memory of `bytes`, of any content.
  /// \throws CudaError when there is no such memory
  explicit PinnedMemory(std::size_t bytes) {
    if (bytes == 0) return;
    void* p = nullptr;
    check(cudaMallocHost(&p, bytes), "cudaMallocHost");
    data_.reset(static_cast<std::byte*>(p));
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { cudaFreeHost(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace K3SPEC_NAMESPACE::cuda
