#pragma once
/// \file
/// Small arrays that the host writes and a device reads, or the other way round: ids, masks, counters, per-row results.
/// All of a step travel together, in one copy. Where host and device share their memory there is one array and no copy.
/// defines: Mirrored, MirrorPlan, Mirror

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/staging.hpp>

namespace K3SPEC_NAMESPACE {

/// An array on both sides.
template <Device D, class T>
struct Mirrored {
  Vector<T> host;
  Vector<element_t<D, T>> device;
};

/// Counts what a Mirror would hand out, as an ArenaPlan does for an Arena.
template <Device D>
class MirrorPlan {
 public:
  /// Counts `count` elements of each side.
  /// \throws Error when they cannot be addressed
  template <class T>
  constexpr Mirrored<D, T> take(index_t count) {
    bytes_ = detail::planned(bytes_, detail::piece<T>(count));
    return {};
  }
  /// Of each side; host and device may share them.
  constexpr std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// One block on the host and one on the device, handed out front to back in pieces of the same places. Contents are
/// zero when made.
template <Device D>
class Mirror {
 public:
  Mirror() = default;
  /// Memory of `bytes` on each side.
  /// \throws Error when there is no such memory
  Mirror(const D& device, std::size_t bytes) : device_(device, static_cast<index_t>(bytes)) {
    if constexpr (!shares_memory<D>) {
      host_ = Buffer<std::byte>(static_cast<index_t>(bytes));
      staging_ = Staging<D>(device, bytes);
    }
  }

  /// The next `count` elements.
  /// \throws Error when the plan was too small or `count` elements cannot be addressed
  template <class T>
  Mirrored<D, T> take(index_t count) {
    static_assert(std::is_trivially_copyable_v<T>, "a mirror copies bytes");
    const std::size_t bytes = detail::piece<T>(count), left = static_cast<std::size_t>(device_.size()) - used_;
    if (bytes > left) throw Error("mirror: bytes left", std::to_string(left), std::to_string(bytes));
    const std::size_t at = used_;
    used_ += bytes;
    return {Vector<T>(reinterpret_cast<T*>(host() + at), count),
            Vector<element_t<D, T>>(reinterpret_cast<element_t<D, T>*>(bare(device_.data()) + at), count)};
  }

  /// All that was taken, from the host to the device, as the host has it now: it may write again on return. What is
  /// asked of the device from now on finds it.
  void upload(const D& device) {
    if constexpr (!shares_memory<D>) {
      std::copy_n(host(), used_, staging_.writable());
      staging_.template send<std::byte>(device, 0, taken());
    }
  }
  /// And back; done on return, as is all that was asked of the device before.
  void download(const D& device) {
    if constexpr (!shares_memory<D>) std::copy_n(staging_.fetch(device, taken()), used_, host());
  }

 private:
  std::byte* host() {
    if constexpr (shares_memory<D>) {
      return device_.data();
    } else {
      return host_.data();
    }
  }

  Vector<element_t<D, std::byte>> taken() {
    return Vector<element_t<D, std::byte>>(device_.data(), static_cast<index_t>(used_));
  }

  /// Where there is no copy.
  struct NoStaging {};

  buffer_t<D, std::byte> device_;
  Buffer<std::byte> host_;
  [[no_unique_address]] std::conditional_t<shares_memory<D>, NoStaging, Staging<D>> staging_;
  std::size_t used_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
