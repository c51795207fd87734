#pragma once
/// \file
/// Memory of the host through which arrays go to a device and come back. A device whose copies go on beside the host
/// specialises it, so that sending does not wait.
/// defines: Staging

#include <cstddef>

#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// Bytes of the host, for one owner's arrays. Here each copy is done when it is asked for.
template <Device D>
class Staging {
 public:
  Staging() = default;
  /// Memory of `bytes`.
  /// \throws Error when there is no such memory
  Staging(const D&, std::size_t bytes) : memory_(static_cast<index_t>(bytes)) {}

  /// The bytes, free to be written: what was sent has left them.
  std::byte* writable() { return memory_.data(); }

  /// Copies what is here from byte `first` on to the device, in the order of its ops. These bytes are not to be written
  /// before writable() is asked again.
  /// \throws Error when there are not so many bytes
  template <class T>
  void send(const D& device, std::size_t first, Vector<Placed<T, D>> to) {
    using k3spec::upload;  // and a backend's own, found by the tag
    upload(device, Vector<const T>(reinterpret_cast<const T*>(memory_.data() + first), to.extent(0)), to);
  }

  /// Copies bytes of the device to the first ones here; done on return, as is all that was asked of the device before.
  std::byte* fetch(const D& device, Vector<const Placed<std::byte, D>> from) {
    using k3spec::download;
    download(device, from, Vector<std::byte>(memory_.data(), from.extent(0)));
    return memory_.data();
  }

 private:
  Buffer<std::byte> memory_;
};

}  // namespace K3SPEC_NAMESPACE
