#pragma once
/// \file
/// Device memory and the way between it and the host.
/// defines: CudaBuffer, CudaArena, upload, download, Staging<Cuda>

#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <k3spec/backend/cuda/device.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/staging.hpp>

namespace K3SPEC_NAMESPACE {

/// A fixed number of trivially copyable elements in device memory, owned, zero when made (in the stream's order).
/// Move-only. Allocating and freeing wait for the device: not for the inside of a step.
template <class T>
class CudaBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are bytes to it: trivially copyable");

 public:
  CudaBuffer() = default;
  /// `cuda` must outlive the buffer.
  /// \throws Error when `count` elements cannot be addressed, CudaError when they cannot be allocated
  CudaBuffer(const Cuda& cuda, index_t count) : cuda_(&cuda), data_(allocate(count)), size_(count) { zero(); }
  CudaBuffer(CudaBuffer&& other) noexcept
      : cuda_(other.cuda_), data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    cuda_ = other.cuda_;
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  Placed<T, Cuda>* data() { return reinterpret_cast<Placed<T, Cuda>*>(data_.get()); }
  const Placed<T, Cuda>* data() const { return reinterpret_cast<const Placed<T, Cuda>*>(data_.get()); }
  index_t size() const { return size_; }
  /// Sets all bytes to 0, in the stream's order.
  /// \throws CudaError
  void zero() { set_bytes(0, 0); }
  /// Bytes from `first` on.
  /// \throws CudaError
  void fill(std::byte value, index_t first = 0) requires std::same_as<T, std::byte> {
    set_bytes(std::to_integer<int>(value), first);
  }

 private:
  struct Free {
    void operator()(T* p) const { cudaFree(p); }
  };

  static T* allocate(index_t count) {
    const auto limit = std::numeric_limits<index_t>::max() / static_cast<index_t>(sizeof(T));
    if (count < 0 || count > limit) {
      throw Error("CUDA buffer: elements", std::to_string(count), "0 to " + std::to_string(limit));
    }
    if (count == 0) return nullptr;
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, static_cast<std::size_t>(count) * sizeof(T)), "cudaMalloc");
    return static_cast<T*>(p);
  }

  void set_bytes(int value, index_t first) {
    const auto count = static_cast<std::size_t>(size_ - first) * sizeof(T);
    if (count == 0) return;
    cuda::check(cudaMemsetAsync(data_.get() + first, value, count, cuda_->stream()), "cudaMemsetAsync");
  }

  const Cuda* cuda_ = nullptr;
  std::unique_ptr<T[], Free> data_;
  index_t size_ = 0;
};

/// Planned device memory.
using CudaArena = BasicArena<CudaBuffer<std::byte>>;

/// A card's memory.
template <>
struct Memory<Cuda> {
  template <class T>
  using Element = Placed<T, Cuda>;
  template <class T>
  using Buffer = CudaBuffer<T>;
  using Arena = CudaArena;
};

namespace cuda {
/// Copies `count` elements in the stream's order.
template <class T>
void copy(const Cuda& cuda, const T* from, T* to, index_t count, cudaMemcpyKind kind) {
  if (count == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  check(cudaMemcpyAsync(to, from, bytes, kind, cuda.stream()), "cudaMemcpyAsync");
}
}  // namespace cuda

/// Copies from the host to the device; done on return.
/// \throws Error when the sizes differ
template <class T>
void upload(const Cuda& cuda, Vector<const T> from, Vector<Placed<T, Cuda>> to) {
  detail::require_same_size("upload", from.extent(0), to.extent(0));
  cuda.require_device_memory(to, "upload: destination");
  cuda::copy(cuda, from.data(), bare(to.data()), from.extent(0), cudaMemcpyHostToDevice);
  cuda.synchronize();
}

/// Copies from the device to the host; done on return, as is all that was asked of the device before.
/// \throws Error when the sizes differ
template <class T>
void download(const Cuda& cuda, Vector<const Placed<T, Cuda>> from, Vector<T> to) {
  detail::require_same_size("download", from.extent(0), to.extent(0));
  cuda.require_device_memory(from, "download: source");
  cuda::copy(cuda, bare(from.data()), to.data(), from.extent(0), cudaMemcpyDeviceToHost);
  cuda.synchronize();
}

/// Bytes of pinned memory and the point in the stream where all that was sent from them has left. Sending returns at
/// once; the host waits where it wants to write again before that point is reached.
template <>
class Staging<Cuda> {
 public:
  Staging() = default;
  /// Memory of `bytes`. Allocating waits for the device.
  /// \throws CudaError when there is no such memory
  Staging(const Cuda&, std::size_t bytes) : memory_(bytes), size_(bytes), sent_(std::in_place) {}

  /// The bytes, free to be written: what was sent has left them.
  /// \throws CudaError
  std::byte* writable() {
    if (in_flight_) sent_->synchronize();
    in_flight_ = false;
    return memory_.data();
  }

  /// Copies what is here from byte `first` on to the device, in the order of its ops. These bytes are not to be written
  /// before writable() is asked again.
  /// \throws Error when there are not so many bytes, CudaError
  template <class T>
  void send(const Cuda& cuda, std::size_t first, Vector<Placed<T, Cuda>> to) {
    require_bytes(first, static_cast<std::size_t>(to.extent(0)) * sizeof(T));
    cuda.require_device_memory(to, "staging: destination");
    cuda::copy(cuda, reinterpret_cast<const T*>(memory_.data() + first), bare(to.data()), to.extent(0),
               cudaMemcpyHostToDevice);
    sent_->record(cuda.stream());
    in_flight_ = true;
  }

  /// Copies bytes of the device to the first ones here; done on return, as is all that was asked of the device before.
  /// \throws Error when there are not so many bytes, CudaError
  std::byte* fetch(const Cuda& cuda, Vector<const Placed<std::byte, Cuda>> from) {
    require_bytes(0, static_cast<std::size_t>(from.extent(0)));
    cuda.require_device_memory(from, "staging: source");
    cuda::copy(cuda, bare(from.data()), memory_.data(), from.extent(0), cudaMemcpyDeviceToHost);
    cuda.synchronize();
    return memory_.data();
  }

 private:
  void require_bytes(std::size_t first, std::size_t bytes) const {
    if (first <= size_ && bytes <= size_ - first) return;
    throw Error("staging: bytes", std::to_string(size_), std::to_string(first + bytes));
  }

  cuda::PinnedMemory memory_;
  std::size_t size_ = 0;
  std::optional<cuda::Event> sent_;
  bool in_flight_ = false;
};

}  // namespace K3SPEC_NAMESPACE
