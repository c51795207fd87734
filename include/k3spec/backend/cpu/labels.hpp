#pragma once
/// \file
/// The label's column of a row's logits on the CPU (losses/cross_entropy.hpp). One number a row: no thread is woken.
/// defines: subtract_label_kernel, subtract_label_backward_kernel

#include <k3spec/core/device.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// losses[r] -= x[r, labels[r]] - largest[r]
template <AnyView X, class S>
void subtract_label_kernel(const Cpu&, const X& x, const Vector<const S>& largest, const Vector<const index_t>& labels,
                           const Vector<S>& losses) {
  for (index_t r = 0; r < labels.extent(0); ++r) {
    losses(r) -= static_cast<S>(x.row(r)[labels(r)]) - largest(r);
  }
}

/// d_x[r, labels[r]] -= scale · d_losses[r]
template <AnyView DX, class S>
void subtract_label_backward_kernel(const Cpu&, const Vector<const index_t>& labels, double scale,
                                    const Vector<const S>& d_losses, const DX& d_x) {
  for (index_t r = 0; r < labels.extent(0); ++r) d_x.row(r)[labels(r)] -= static_cast<S>(scale) * d_losses(r);
}

}  // namespace K3SPEC_NAMESPACE
