#pragma once
/// \file
/// What the host has made and a device only reads: in place where they share memory, else copied once.
/// defines: moved_to, Held

#include <utility>

#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// Elements that the host made, in a device's memory. On the host they stay where they are.
template <class T, Device D>
buffer_t<D, T> moved_to(const D& device, Buffer<T>&& from) {
  if constexpr (shares_memory<D>) {
    return std::move(from);
  } else {
    buffer_t<D, T> to(device, from.size());
    upload(device, Vector<const T>(from.data(), from.size()), Vector<element_t<D, T>>(to.data(), to.size()));
    return to;
  }
}

/// A tensor of the host's as a device reads it: the tensor itself, which must outlive this, or a copy.
template <Device D, class T, index_t... E>
class Held {
 public:
  /// Of nothing; only to be assigned to.
  Held() = default;
  Held(const D& device, const View<const T, E...>& from) {
    if constexpr (shares_memory<D>) {
      view_ = from;
    } else {
      copy_ = buffer_t<D, T>(device, from.size());
      const auto rows = as_matrix(from);
      for (index_t r = 0; r < rows.extent(0); ++r) {
        upload(device, Vector<const T>(rows.row(r), rows.extent(1)),
               Vector<element_t<D, T>>(copy_.data() + r * rows.extent(1), rows.extent(1)));
      }
      view_ = View<const element_t<D, T>, E...>(copy_.data(), from.extents());
    }
  }

  const View<const element_t<D, T>, E...>& view() const { return view_; }

 private:
  buffer_t<D, T> copy_;
  View<const element_t<D, T>, E...> view_;
};

}  // namespace K3SPEC_NAMESPACE
