#pragma once
/// \file
/// DSpark's row losses: cross-entropy with the label, the L1 distance of the draft's distribution q from the target's
/// p, and the confidence head's binary cross-entropy with the acceptance probability 1 - |p - q|₁ / 2.
/// defines: distance_formula, dspark_row_formula, acceptance_formula, confidence_formula

#include <k3spec/losses/cross_entropy.hpp>

namespace K3SPEC_NAMESPACE {

/// Operand 0: logits [rows, n] of q; 1: probabilities p [rows, n]; 2: row_max of operand 0 [rows] -> |p - q|₁ per row.
constexpr auto distance_formula() {
  constexpr auto x = expr::arg<0>;
  return row_sum(abs(exp(log_softmax_of(x, expr::row<2>)) - expr::arg<1>));
}

/// The same operands -> ce · log Σ exp(x - m) + l1 · |p - q|₁: the row's loss but for the label's column, which
/// subtract_label brings.
constexpr auto dspark_row_formula(double ce, double l1) {
  return ce * log_mass_of(expr::arg<0>, expr::row<2>) + l1 * distance_formula();
}

/// Operand 0: |p - q|₁ -> the probability that a token drawn from q is accepted.
constexpr auto acceptance_formula() { return max(min(1.0 - 0.5 * expr::arg<0>, 1.0), 0.0); }

/// Operand 0: a logit; 1: the probability it is to have -> -(a log σ(z) + (1 - a) log σ(-z)). Two terms of one sign:
/// softplus(z) - a z is the same, but where a large z is right the difference of two large numbers.
constexpr auto confidence_formula() {
  constexpr auto z = expr::arg<0>;
  constexpr auto a = expr::arg<1>;
  return a * softplus(-z) + (1.0 - a) * softplus(z);
}

}  // namespace K3SPEC_NAMESPACE
