#pragma once
/// \file
/// The global norm of a gradient and what clipping by it multiplies the gradient with (torch's clip_grad_norm_).
/// defines: GradientNorm, clip_coefficient

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <k3spec/core/mirror.hpp>
#include <k3spec/ops/sum_of_squares.hpp>

namespace K3SPEC_NAMESPACE {

/// Computes sqrt(Σ g²) of gradients of n elements, summed in double: the same bits on every device.
template <Device D = Cpu>
class GradientNorm {
 public:
  GradientNorm(const D& device, index_t n)
      : mirror_(device, bytes(n)), sums_(mirror_.template take<double>(expr::square_blocks(n))) {}

  /// g [n]. Waits for the device.
  /// \throws Error when g has not n elements
  template <class S, index_t N>
  double operator()(const D& device, const View<S, N>& g) {
    sums_of_squares<std::remove_const_t<S>>(device, g, sums_.device);
    mirror_.download(device);
    double total = 0;
    for (index_t i = 0; i < sums_.host.extent(0); ++i) total += sums_.host(i);
    return std::sqrt(total);
  }

 private:
  static std::size_t bytes(index_t n) {
    MirrorPlan<D> plan;
    plan.template take<double>(expr::square_blocks(n));
    return plan.bytes();
  }

  Mirror<D> mirror_;
  Mirrored<D, double> sums_;
};

/// What a gradient of norm `norm` is multiplied with so that its norm is at most `largest`.
inline double clip_coefficient(double norm, double largest) { return std::min(1.0, largest / (norm + 1e-6)); }

}  // namespace K3SPEC_NAMESPACE
