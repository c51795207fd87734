#pragma once
/// \file
/// Soft cross-entropy of a row: -Σ_v p_v log softmax(x)_v, and the softmax that makes p. Both are expressions.
/// defines: log_sum_exp, softmax_formula, soft_cross_entropy_formula

#include <k3spec/expr/reduce.hpp>

namespace k3spec {

/// log Σ_v exp x_v over a row, with the row's maximum taken out so that nothing overflows.
template <expr::Expression E>
constexpr auto log_sum_exp(E x) {
  return log(row_sum(exp(x - detach(row_max(x))))) + detach(row_max(x));
}

/// Operand 0: logits [rows, n] -> probabilities [rows, n].
constexpr auto softmax_formula() {
  constexpr auto x = expr::arg<0>;
  return exp(x - log_sum_exp(x));
}

/// Operand 0: logits [rows, n]; operand 1: target probabilities [rows, n] -> one value per row.
constexpr auto soft_cross_entropy_formula() {
  constexpr auto x = expr::arg<0>;
  return -row_sum(expr::arg<1> * (x - log_sum_exp(x)));
}

}  // namespace k3spec
