#pragma once
/// \file
/// The label's column of a row's logits on a card (losses/cross_entropy.hpp), a thread a row. A label that is no column
/// makes the row's loss NaN, gets no gradient, and is told of by Cuda::synchronize.
/// defines: subtract_label_kernel, subtract_label_backward_kernel

#include <limits>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: forward.
template <class T, class S>
__global__ void __launch_bounds__(256, 2)
    subtract_labels(Matrix<const T> x, Vector<const S> largest, Vector<const index_t> labels, Vector<S> losses,
                    unsigned long long* faults) {
  for_items(labels.extent(0), [&](index_t r) {
    const index_t label = labels(r);
    const bool there = is_id(label, x.extent(1), r, faults);
    const S value = there ? static_cast<S>(x.row(r)[label]) : std::numeric_limits<S>::quiet_NaN();
    losses(r) = losses(r) - (value - largest(r));
  });
}

/// Kernel: backward.
template <class S>
__global__ void __launch_bounds__(256, 2)
    subtract_labels_back(Vector<const index_t> labels, S scale, Vector<const S> d_losses, Matrix<S> d_x,
                         unsigned long long* faults) {
  for_items(labels.extent(0), [&](index_t r) {
    const index_t label = labels(r);
    if (!is_id(label, d_x.extent(1), r, faults)) return;
    S& to = d_x.row(r)[label];
    to = to - scale * d_losses(r);
  });
}

}  // namespace cuda

/// losses[r] -= x[r, labels[r]] - largest[r]
template <AnyView X, class S>
void subtract_label_kernel(const Cuda& cuda, const X& x, const Vector<const Placed<S, Cuda>>& largest,
                           const Vector<const Placed<index_t, Cuda>>& labels, const Vector<Placed<S, Cuda>>& losses) {
  static_assert(cuda::on_card<X>, "subtract_label on Cuda: x is no view of element_t<Cuda, T>");
  using T = value_t<typename X::value_type>;
  const Matrix<const T> from = bare(as_matrix(x));
  cuda.require_device_memory(from, "subtract_label: x");
  cuda.require_device_memory(largest, "subtract_label: largest");
  cuda.require_device_memory(labels, "subtract_label: labels");
  cuda.require_device_memory(losses, "subtract_label: losses");
  if (labels.extent(0) == 0) return;
  cuda::launch(cuda, cuda::item_shape(cuda, labels.extent(0)), cuda::subtract_labels<T, S>, from, bare(largest),
               bare(labels), bare(losses), cuda.faults());
}

/// d_x[r, labels[r]] -= scale · d_losses[r]
template <AnyView DX, class S>
void subtract_label_backward_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& labels, double scale,
                                    const Vector<const Placed<S, Cuda>>& d_losses, const DX& d_x) {
  static_assert(cuda::on_card<DX>, "subtract_label on Cuda: d_x is no view of element_t<Cuda, T>");
  const Matrix<S> to = bare(as_matrix(d_x));
  cuda.require_device_memory(labels, "subtract_label_backward: labels");
  cuda.require_device_memory(d_losses, "subtract_label_backward: d_losses");
  cuda.require_device_memory(to, "subtract_label_backward: d_x");
  if (labels.extent(0) == 0) return;
  cuda::launch(cuda, cuda::item_shape(cuda, labels.extent(0)), cuda::subtract_labels_back<S>, bare(labels),
               static_cast<S>(scale), bare(d_losses), to, cuda.faults());
}

}  // namespace K3SPEC_NAMESPACE
