#pragma once
/// \file
/// y[r, j] (= or +=) x[r, j]. x, y [rows, n]. So a gradient goes on to an input that is passed on as it is.
/// defines: copy_rows

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// x [rows, n] -> y [rows, n], as it is asked for.
/// \throws Error on a y of another shape
template <Device D, AnyView X, AnyView Y>
void copy_rows(const D& device, const X& x, const Y& y, Into into) {
  if (into == Into::nothing) return;
  require_shape("copy_rows: y", y, x.extent(0), x.row_size());
  if (into == Into::overwrite) return evaluate(device, expr::arg<0>, y, x);
  evaluate(device, expr::arg<0> + expr::arg<1>, y, y, x);
}

}  // namespace K3SPEC_NAMESPACE
