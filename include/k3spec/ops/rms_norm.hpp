#pragma once
/// \file
/// y[r, j] = w[j] · round(x[r, j] / sqrt(mean_j x[r, j]² + eps)): the normalised value is rounded to the storage type
/// before the multiply by w (KimiRMSNorm of the published model code). x, y [rows, n]; w [n].
/// Saved: nothing but x.
/// defines: rms_norm_formula, rms_norm_forward, rms_norm_backward, rms_norm_scratch

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>

namespace K3SPEC_NAMESPACE {

/// Operand 0 is x, operand 1 is w. T is the storage type.
template <class T>
constexpr auto rms_norm_formula(double eps) {
  constexpr auto x = expr::arg<0>;
  constexpr auto w = expr::column<1>;
  return w * expr::rounded_to<std::remove_cv_t<value_t<T>>>(x * rsqrt(row_mean(x * x) + eps));
}

/// x [rows, N] -> y [rows, N], with the scale w [N].
/// \throws Error on a y of another shape than x, or a w of another length than their rows
template <class T, Device D, AnyView X, AnyView Y>
void rms_norm_forward(const D& device, Vector<const T> w, double eps, const X& x, const Y& y) {
  require_shape("rms_norm: y", y, x.extent(0), x.row_size());
  require_count("rms_norm: w", w.extent(0), x.row_size());
  evaluate(device, rms_norm_formula<T>(eps), y, x, w);
}

/// d_w += …; d_x must not overlap d_y.
/// \throws Error on gradients of other shapes than what they are of
template <class T, Device D, Allocator A, AnyView X, AnyView DY>
void rms_norm_backward(const Workspace<D, A>& on, Vector<const T> w, Vector<accumulate_t<T>> d_w, double eps,
                       const X& x, const DY& d_y, const Destination<accumulate_t<T>>& d_x) {
  require_count("rms_norm: w", w.extent(0), x.row_size());
  require_count("rms_norm: d_w", d_w.extent(0), x.row_size());
  require_shape("rms_norm: d_y", d_y, x.extent(0), x.row_size());
  d_x.check("rms_norm: d_x", x.extent(0), x.row_size());
  const auto formula = rms_norm_formula<T>(eps);
  const auto run = [&](const auto& of_x) {
    differentiate(on.device, formula, d_y, gradients(of_x, accumulate(d_w)), on.scratch, x, w);
  };
  if (d_x.into == Into::nothing) return run(no_gradient);
  if (d_x.into == Into::overwrite) return run(overwrite(d_x.to));
  run(accumulate(d_x.to));
}

/// Bytes of scratch that rms_norm_backward takes.
template <class T>
constexpr std::size_t rms_norm_scratch(index_t rows) {
  return differentiate_scratch<decltype(rms_norm_formula<T>(0.0)), accumulate_t<T>>(rows);
}

}  // namespace K3SPEC_NAMESPACE
