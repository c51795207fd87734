#pragma once
/// \file
/// Working memory of one thread, cut out of an Arena before threads run.
/// defines: ArenaSlice

#include <cstddef>
#include <string>

#include <k3spec/core/arena.hpp>

namespace K3SPEC_NAMESPACE {

/// A piece of an Arena's memory that one thread hands out by itself.
class ArenaSlice {
 public:
  /// A slice of memory that has been planned.
  /// \param memory  `bytes` of it, aligned
  ArenaSlice(std::byte* memory, std::size_t bytes) : memory_(memory), capacity_(bytes) {}

  /// The next `count` elements.
  /// \throws Error when the plan was too small
  template <class T>
  T* take(index_t count) {
    const std::size_t bytes = detail::piece<T>(count);
    if (bytes > capacity_ - used_) {
      throw Error("arena slice: bytes left", std::to_string(capacity_ - used_), std::to_string(bytes));
    }
    std::byte* p = memory_ + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(p);
  }

  std::size_t used() const { return used_; }
  void release(std::size_t mark) { used_ = mark; }

 private:
  std::byte* memory_;
  std::size_t capacity_, used_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
