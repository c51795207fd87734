#pragma once
/// \file
/// Cross-entropy with a label: log Σ_v exp x_v - x_label. The sum is an expression; the label's column is picked out of
/// a row, and on the way back gets its -1, beside it.
/// defines: row_max_formula, log_sum_exp_of, log_sum_exp_formula, subtract_label, subtract_label_backward

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/expr/reduce.hpp>

namespace k3spec {

/// Operand 0: logits [rows, n] -> one value per row.
constexpr auto row_max_formula() { return row_max(expr::arg<0>); }

/// log Σ_v exp x_v, given any value near the row's largest that has no derivative of its own: with row_max taken once
/// for several formulas, each sums up a row once.
template <expr::Expression E, expr::Expression M>
constexpr auto log_sum_exp_of(E x, M largest) {
  return log(row_sum(exp(x - largest))) + largest;
}

/// Operand 0: logits [rows, n]; operand 1: row_max [rows] -> one value per row.
constexpr auto log_sum_exp_formula() { return log_sum_exp_of(expr::arg<0>, expr::row<1>); }

/// losses[r] -= x[r, labels[r]]
template <AnyView X, class S>
void subtract_label(const X& x, Vector<const index_t> labels, Vector<S> losses) {
  for (index_t r = 0; r < labels.extent(0); ++r) losses(r) -= static_cast<S>(x.row(r)[labels(r)]);
}

/// d_x[r, labels[r]] -= scale · d_losses[r]
template <AnyView DX, class S>
void subtract_label_backward(Vector<const index_t> labels, double scale, Vector<const S> d_losses, const DX& d_x) {
  for (index_t r = 0; r < labels.extent(0); ++r) d_x.row(r)[labels(r)] -= static_cast<S>(scale) * d_losses(r);
}

}  // namespace k3spec
