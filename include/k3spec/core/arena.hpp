#pragma once
/// \file
/// Planned activation memory. A step's memory is described once, by functions that `take` from an allocator;
/// run on an ArenaPlan they add sizes up (also when compiling), run on an Arena they hand memory out.
/// defines: ArenaPlan, BasicArena, Arena, Scope, Allocator, take_rows, plan_bytes

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// The bytes of an arena's piece. Checked before anything is computed with `count`: a negative one must not wrap
/// around.
template <class T>
constexpr std::size_t piece(index_t count) {
  constexpr index_t most = std::numeric_limits<index_t>::max() / static_cast<index_t>(2 * sizeof(T));
  if (count < 0 || count > most) {
    throw Error("arena: elements", std::to_string(count), "0 to " + std::to_string(most));
  }
  return aligned(static_cast<std::size_t>(count) * sizeof(T));
}

/// The sum of two sizes of a plan, which must not wrap around either.
constexpr std::size_t planned(std::size_t used, std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 62;
  if (used <= most && bytes <= most - used) return used + bytes;
  throw Error("arena: bytes", std::to_string(used) + " and " + std::to_string(bytes) + " more", "at most 2^62");
}
}  // namespace detail

/// Counts what an Arena would hand out. `peak()` is the size the Arena needs.
class ArenaPlan {
 public:
  /// Counts the memory of `count` elements; gives none.
  /// \throws Error when `count` elements cannot be addressed
  template <class T>
  constexpr T* take(index_t count) {
    reserve(detail::piece<T>(count));
    return nullptr;
  }

  /// Room for `bytes` that a callee takes and gives back.
  /// \throws Error when there is more than can be addressed
  constexpr void borrow(std::size_t bytes) { peak_ = std::max(peak_, detail::planned(used_, bytes)); }

  constexpr std::size_t used() const { return used_; }
  constexpr std::size_t peak() const { return peak_; }
  constexpr void release(std::size_t mark) { used_ = mark; }

 private:
  constexpr void reserve(std::size_t bytes) {
    used_ = detail::planned(used_, bytes);
    peak_ = std::max(peak_, used_);
  }

  std::size_t used_ = 0, peak_ = 0;
};

/// One block of memory, handed out front to back in 64-byte aligned pieces. Contents start undefined.
/// \tparam Bytes  owns the block: data(), size(), and fill(byte, first) for the bytes from `first` on
template <class Bytes>
class BasicArena {
 public:
  BasicArena() = default;
  explicit BasicArena(Bytes memory) : memory_(std::move(memory)) {}
  explicit BasicArena(std::size_t bytes) requires std::constructible_from<Bytes, index_t>
      : memory_(static_cast<index_t>(bytes)) {}
  template <Device D>
  BasicArena(const D& device, std::size_t bytes) : memory_(device, static_cast<index_t>(bytes)) {}

  /// The next `count` elements.
  /// \throws Error when the plan was too small or `count` elements cannot be addressed
  template <class T>
  T* take(index_t count) {
    const std::size_t bytes = detail::piece<T>(count);
    if (bytes > capacity() - used_) {
      throw Error("arena: bytes left", std::to_string(capacity() - used_), std::to_string(bytes));
    }
    std::byte* p = bare(memory_.data()) + used_;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return reinterpret_cast<T*>(p);
  }

  std::size_t capacity() const { return static_cast<std::size_t>(memory_.size()); }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  void release(std::size_t mark) { used_ = mark; }

  /// Fills what is free with 0xff, so that a value read before it is written is a NaN.
  void poison() { memory_.fill(std::byte{0xff}, static_cast<index_t>(used_)); }

 private:
  Bytes memory_;
  std::size_t used_ = 0, peak_ = 0;
};

/// Planned host memory.
using Arena = BasicArena<Buffer<std::byte>>;

/// An arena, or the plan of one.
template <class A>
concept Allocator = requires(A& a) {
  { a.template take<float>(index_t{}) } -> std::same_as<float*>;
  a.release(a.used());
};

/// Gives back, when it goes out of scope, all that was taken since it was made.
template <Allocator A>
class Scope {
 public:
  constexpr explicit Scope(A& arena) : arena_(arena), mark_(arena.used()) {}
  constexpr ~Scope() { arena_.release(mark_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  A& arena_;
  std::size_t mark_;
};

/// Points a view with one run-time extent, the first, at new memory for `rows` rows.
/// \throws Error when they cannot be addressed
template <Allocator A, class T, index_t... Rest>
constexpr void take_rows(A& a, index_t rows, View<T, dyn, Rest...>& view) {
  view = View<T, dyn, Rest...>(a.template take<T>(checked_product(rows, Rest...)), rows);
}

/// The bytes that `take_all(allocator)` needs.
template <class F>
constexpr std::size_t plan_bytes(F&& take_all) {
  ArenaPlan plan;
  take_all(plan);
  return plan.peak();
}

}  // namespace K3SPEC_NAMESPACE
