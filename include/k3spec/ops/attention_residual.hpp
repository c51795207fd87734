#pragma once
/// \file
/// Attention residuals: a softmax over the values x_j (the starts of earlier blocks and the current sum), scored by a
/// learned vector w on their RMS-normed values, mixes the values as they are.
/// ```text
/// s_j = Σ_h x_j[h] w[h] / sqrt(mean x_j² + eps),   y = Σ_j softmax(s)_j x_j
/// ```
/// x_j, y [rows, H]; w [H], the product of the norm's and the projection's weights, in the accumulation type.
/// defines: attention_residual

#include <span>
#include <string>

#include <k3spec/backend/cpu/attention_residual.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Values x_j, each [rows, H] -> y [rows, H], see above.
/// \throws Error on no value or too many, and on shapes that do not fit y's
template <class T, class S, Device D>
void attention_residual(const D& device, std::span<const Matrix<T>> values, const Vector<S>& w, double eps,
                        const Matrix<std::remove_const_t<T>>& y) {
  const index_t rows = y.extent(0), n = y.extent(1), count = static_cast<index_t>(values.size());
  if (count < 1 || count > max_residual_values) {
    throw Error("attention_residual: values", std::to_string(count), "1 to " + std::to_string(max_residual_values));
  }
  for (const auto& x : values) require_shape("attention_residual: values", x, rows, n);
  require_count("attention_residual: w", w.extent(0), n);
  attention_residual_kernel(device, values, w, eps, y);
}

}  // namespace K3SPEC_NAMESPACE
