#pragma once
/// \file
/// The global norm of a gradient and what clipping by it multiplies the gradient with (torch's clip_grad_norm_).
/// defines: GradientNorm, clip_coefficient

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <k3spec/core/memory.hpp>
#include <k3spec/ops/sum_of_squares.hpp>

namespace K3SPEC_NAMESPACE {

/// Computes sqrt(Σ g²) of gradients of n elements, summed in double: the same bits on every device.
template <Device D = Cpu>
class GradientNorm {
 public:
  GradientNorm(const D& device, index_t n) : sums_(device, expr::square_blocks(n)), on_host_(expr::square_blocks(n)) {}

  /// g [n]. Waits for the device.
  /// \throws Error when g has not n elements
  template <class S, index_t N>
  double operator()(const D& device, const View<S, N>& g) {
    const Vector<element_t<D, double>> sums(sums_.data(), sums_.size());
    sums_of_squares<std::remove_const_t<S>>(device, g, sums);
    download<double>(device, sums, Vector<double>(on_host_.data(), on_host_.size()));
    double total = 0;
    for (const double sum : on_host_) total += sum;
    return std::sqrt(total);
  }

 private:
  buffer_t<D, double> sums_;
  Buffer<double> on_host_;
};

/// What a gradient of norm `norm` is multiplied with so that its norm is at most `largest`.
inline double clip_coefficient(double norm, double largest) { return std::min(1.0, largest / (norm + 1e-6)); }

}  // namespace K3SPEC_NAMESPACE
