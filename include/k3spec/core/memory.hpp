#pragma once
/// \file
/// Where a device's tensors live, and the way between it and the host.
/// defines: Memory, element_t, shares_memory, buffer_t, arena_t, upload, download

#include <algorithm>
#include <cstddef>
#include <string>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/device.hpp>

namespace K3SPEC_NAMESPACE {

/// A device's owned and its planned memory.
template <Device D>
struct Memory;

/// The host's memory.
template <>
struct Memory<Cpu> {
  template <class T>
  using Element = T;
  template <class T>
  using Buffer = k3spec::Buffer<T>;
  using Arena = k3spec::Arena;
};

/// What views of T's in a device's memory are views of: T itself on the host, and what the host cannot read elsewhere.
template <Device D, class T>
using element_t = typename Memory<D>::template Element<value_t<T>>;

/// Whether the host reads a device's memory as its own.
template <Device D>
inline constexpr bool shares_memory = !is_placed<element_t<D, std::byte>>;

/// Elements that a device owns, zero when made: buffer_t<D, T>(device, count). Its data() points to element_t<D, T>.
template <Device D, class T>
using buffer_t = typename Memory<D>::template Buffer<value_t<T>>;

/// Activations and scratch of a device: arena_t<D>(device, bytes).
template <Device D>
using arena_t = typename Memory<D>::Arena;

namespace detail {
inline void require_same_size(const char* what, index_t from, index_t to) {
  if (from != to) throw Error(what, std::to_string(to) + " elements", std::to_string(from));
}
}  // namespace detail

/// Copies from the host to a device that shares its memory; done on return.
/// \throws Error when the sizes differ
template <class T, Device D>
  requires shares_memory<D>
void upload(const D&, Vector<const T> from, Vector<T> to) {
  detail::require_same_size("upload", from.extent(0), to.extent(0));
  std::copy_n(from.data(), from.extent(0), to.data());
}

/// Copies from such a device to the host; done on return.
/// \throws Error when the sizes differ
template <class T, Device D>
  requires shares_memory<D>
void download(const D&, Vector<const T> from, Vector<T> to) {
  detail::require_same_size("download", from.extent(0), to.extent(0));
  std::copy_n(from.data(), from.extent(0), to.data());
}

}  // namespace K3SPEC_NAMESPACE
