#pragma once
/// \file
/// A device that computes nothing: it writes down what it is asked for. The drafts' own code runs on it, so what is
/// counted is what a card will be asked for, at any size, in no time. Memory is addresses: a page is there once the
/// host has sent something to it, and reads as zeros.
/// defines: Gradients32, Counted, CountedBuffer

#include <sys/mman.h>

#include <string>
#include <utility>

#include <k3spec/core/memory.hpp>

#include "ledger.hpp"

namespace K3SPEC_NAMESPACE {

/// How a product of float32 gradients with bfloat16 values runs: exactly, as backend/cuda/gemm.hpp does, in three
/// products of bfloat16, or in one with the gradients rounded to bfloat16 first, as PyTorch's autograd has them anyway.
enum class Gradients32 { split, rounded };

struct Counted {
  bench::Ledger* ledger = nullptr;
  Gradients32 gradients = Gradients32::split;
};
template <>
inline constexpr bool is_device<Counted> = true;

/// Addresses of `count` elements. Move-only.
template <class T>
class CountedBuffer {
 public:
  CountedBuffer() = default;
  CountedBuffer(const Counted& device, index_t count) : device_(device), size_(count) {
    if (bytes() == 0) return;
    void* p = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw Error("counted memory", "no addresses left", std::to_string(bytes()) + " bytes");
    data_ = static_cast<T*>(p);
    device_.ledger->hold(static_cast<double>(bytes()));
  }
  CountedBuffer(CountedBuffer&& other) noexcept { *this = std::move(other); }
  CountedBuffer& operator=(CountedBuffer&& other) noexcept {
    std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  ~CountedBuffer() {
    if (data_ == nullptr) return;
    device_.ledger->hold(-static_cast<double>(bytes()));
    munmap(data_, bytes());
  }

  Placed<T, Counted>* data() { return reinterpret_cast<Placed<T, Counted>*>(data_); }
  const Placed<T, Counted>* data() const { return reinterpret_cast<const Placed<T, Counted>*>(data_); }
  index_t size() const { return size_; }
  void fill(std::byte, index_t = 0) {}

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }

  Counted device_;
  T* data_ = nullptr;
  index_t size_ = 0;
};

template <>
struct Memory<Counted> {
  template <class T>
  using Element = Placed<T, Counted>;
  template <class T>
  using Buffer = CountedBuffer<T>;
  using Arena = BasicArena<CountedBuffer<std::byte>>;
};

/// Bytes between the host and a card go by another way than a card's own; they are counted as waits.
template <class T>
void upload(const Counted& device, Vector<const T> from, Vector<Placed<T, Counted>> to) {
  device.ledger->wait();
  upload(Cpu{}, from, bare(to));
}
template <class T>
void download(const Counted& device, Vector<const Placed<T, Counted>> from, Vector<T> to) {
  device.ledger->wait();
  download(Cpu{}, bare(from), to);
}

}  // namespace K3SPEC_NAMESPACE
