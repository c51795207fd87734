#pragma once
/// \file
/// What the host has made and a device only reads: in place where they share memory, else copied once.
/// defines: upload_rows, moved_to, Held, on_host

#include <utility>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/unread.hpp>

namespace K3SPEC_NAMESPACE {

/// Copies rows of the host's to packed ones of a device: at once where there are no gaps between them.
/// \throws Error when there are other numbers of elements
template <class T, Device D>
void upload_rows(const D& device, const Matrix<const T>& from, const Vector<element_t<D, T>>& to) {
  const index_t columns = from.extent(1);
  detail::require_same_size("upload", from.size(), to.extent(0));
  if (from.is_packed()) return upload(device, Vector<const T>(from.data(), from.size()), to);
  for (index_t r = 0; r < from.extent(0); ++r) {
    upload(device, Vector<const T>(from.row(r), columns), to.rows(r * columns, columns));
  }
}

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

/// A tensor of the host's as a device reads it: the tensor itself, which must outlive this, or a copy. Of a tensor that
/// is still to be read, a copy always.
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
      upload_rows<T>(device, as_matrix(from), Vector<element_t<D, T>>(copy_.data(), copy_.size()));
      view_ = View<const element_t<D, T>, E...>(copy_.data(), from.extents());
    }
  }
  template <index_t... F>
  Held(const D& device, const View<Unread<T>, F...>& from) {
    Buffer<T> read(uninitialized, from.size());
    from.tensor().read(read.data());
    copy_ = moved_to(device, std::move(read));
    view_ = View<const element_t<D, T>, F...>(copy_.data(), from.extents());
  }

  const View<const element_t<D, T>, E...>& view() const { return view_; }
  /// Of the tensor, wherever it is.
  std::size_t bytes() const { return sizeof(T) * static_cast<std::size_t>(view_.size()); }

 private:
  buffer_t<D, T> copy_;
  View<const element_t<D, T>, E...> view_;
};

/// A tensor for the host to read: in place, or read.
template <class T, index_t... E>
Held<Cpu, T, E...> on_host(const View<const T, E...>& from) {
  return {Cpu{}, from};
}
/// The same of one that is still to be read.
template <class T, index_t... E>
Held<Cpu, T, E...> on_host(const View<Unread<T>, E...>& from) {
  return {Cpu{}, from};
}

}  // namespace K3SPEC_NAMESPACE
