#pragma once
/// \file
/// Elements as they are: y[r, j] (= or +=) x[r, j], and y[r, j] = 0. x, y [rows, n].
/// defines: copy, add, zero

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// y += x
/// \throws Error on a y of another shape
template <Device D, AnyView X, AnyView Y>
void add(const D& device, const X& x, const Y& y) {
  require_shape("add: y", y, x.extent(0), x.row_size());
  evaluate(device, expr::arg<0> + expr::arg<1>, y, y, x);
}

/// x -> y, rounded to y's type; as it is asked for. So a gradient goes on to an input that is passed on as it is.
/// \throws Error on a y of another shape
template <Device D, AnyView X, AnyView Y>
void copy(const D& device, const X& x, const Y& y, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  if (into == Into::accumulate) return add(device, x, y);
  require_shape("copy: y", y, x.extent(0), x.row_size());
  evaluate(device, expr::arg<0>, y, x);
}

/// y = 0
template <Device D, AnyView Y>
void zero(const D& device, const Y& y) {
  evaluate(device, expr::Constant{0}, y);
}

}  // namespace K3SPEC_NAMESPACE
