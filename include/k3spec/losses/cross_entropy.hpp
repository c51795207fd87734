#pragma once
/// \file
/// Cross-entropy with a label: log Σ_v exp(x_v - m) - (x_label - m), m the row's largest. The sum is an expression; the
/// label's column is picked out of a row, and on the way back gets its -1, beside it.
/// defines: row_max_formula, log_mass_formula, subtract_label, subtract_label_backward

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/labels.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/losses/log_softmax.hpp>

namespace K3SPEC_NAMESPACE {

/// Operand 0: logits [rows, n] -> one value per row.
constexpr auto row_max_formula() { return row_max(expr::arg<0>); }

/// Operand 0: logits [rows, n]; operand 1: row_max [rows] -> log Σ_v exp(x_v - m) per row.
constexpr auto log_mass_formula() { return log_mass_of(expr::arg<0>, expr::row<1>); }

/// losses[r] -= x[r, labels[r]] - largest[r]; largest is row_max [rows]
/// \throws Error on other numbers of rows than x has, or, where the host reads them, a label that is none of its
/// columns
template <AnyView X, class S, Device D>
void subtract_label(const D& device, const X& x, Vector<const S> largest, Vector<const index_beside_t<X>> labels,
                    Vector<S> losses) {
  require_rows("subtract_label: largest", largest, x.extent(0));
  require_rows("subtract_label: labels", labels, x.extent(0));
  require_rows("subtract_label: losses", losses, x.extent(0));
  if constexpr (shares_memory<D>) require_ids("subtract_label: labels", labels, x.row_size());
  subtract_label_kernel(device, x, largest, labels, losses);
}

/// d_x[r, labels[r]] -= scale · d_losses[r]
/// \throws Error on other numbers of rows than d_x has, or, where the host reads them, a label that is none of its
///         columns
template <AnyView DX, class S, Device D>
void subtract_label_backward(const D& device, Vector<const index_beside_t<DX>> labels, double scale,
                             Vector<const S> d_losses, const DX& d_x) {
  require_rows("subtract_label_backward: labels", labels, d_x.extent(0));
  require_rows("subtract_label_backward: d_losses", d_losses, d_x.extent(0));
  if constexpr (shares_memory<D>) require_ids("subtract_label_backward: labels", labels, d_x.row_size());
  subtract_label_backward_kernel(device, labels, scale, d_losses, d_x);
}

}  // namespace K3SPEC_NAMESPACE
