#pragma once
/// \file
/// Owning host memory, aligned for the widest vector unit.
/// defines: alignment, aligned, Uninitialized, uninitialized, Buffer

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <k3spec/core/device.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/huge_pages.hpp>

namespace K3SPEC_NAMESPACE {

/// Bytes; a cache line, and the widest vector register.
inline constexpr std::size_t alignment = 64;

/// `bytes` rounded up to a multiple of `alignment`.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Says that a buffer's memory may hold anything: all of it is written before it is read. Large memory is then not
/// touched, and takes no room, before that.
struct Uninitialized {};
inline constexpr Uninitialized uninitialized;

/// A fixed number of trivially copyable elements, owned, zero when made. Move-only.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are bytes to it: trivially copyable");

 public:
  Buffer() = default;

  /// Memory of `count` elements, all bytes 0.
  /// \throws Error when `count` elements cannot be addressed or allocated
  explicit Buffer(index_t count) : data_(allocate(count, true)), size_(count) {}

  /// The same, but for the zeros.
  Buffer(Uninitialized, index_t count) : data_(allocate(count, false)), size_(count) {}

  /// The same, as every device's buffers are made.
  Buffer(Cpu, index_t count) : Buffer(count) {}

  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    release();
    data_ = std::exchange(other.data_, nullptr), size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Buffer() { release(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  index_t size() const { return size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  /// Elements from `first` on.
  void fill(const T& value, index_t first = 0) { std::fill(begin() + first, end(), value); }
  T& operator[](index_t i) { return data()[i]; }
  const T& operator[](index_t i) const { return data()[i]; }

 private:
  void release() { ::operator delete (data_, std::align_val_t{alignment}); }

  static T* allocate(index_t count, bool zeros) {
    const auto limit = std::numeric_limits<index_t>::max() / static_cast<index_t>(sizeof(T));
    if (count < 0 || count > limit)
      throw Error("buffer: elements", std::to_string(count), "0 to " + std::to_string(limit));
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* p = ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{alignment}, std::nothrow);
    if (p == nullptr) throw Error("buffer: memory", "none left", std::to_string(bytes) + " bytes");
    advise_huge_pages(p, bytes);
    if (zeros) std::memset(p, 0, bytes);
    return static_cast<T*>(p);
  }

  T* data_ = nullptr;  // a unique_ptr would be all of <memory> in every header
  index_t size_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
