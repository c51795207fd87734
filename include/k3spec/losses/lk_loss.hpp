#pragma once
/// \file
/// The row formulas of acceptance losses: a token drawn from the draft's distribution q is accepted by a target that
/// has p with probability α = Σ_v min(p_v, q_v).
/// defines: acceptance_rate_formula, lk_lambda_gradient_formula

#include <k3spec/losses/soft_cross_entropy.hpp>

namespace K3SPEC_NAMESPACE {

/// Operand 0: logits [rows, n] of q; operand 1: probabilities p [rows, n] -> α per row. Where p = q each side of the
/// minimum has half the derivative, as in PyTorch.
constexpr auto acceptance_rate_formula() { return row_sum(min(softmax_formula(), expr::arg<1>)); }

/// The same operands -> w · soft cross-entropy - (1 - w) α: the derivative of LK's lambda at a given w.
constexpr auto lk_lambda_gradient_formula(double w) {
  return w * soft_cross_entropy_formula() - (1.0 - w) * acceptance_rate_formula();
}

}  // namespace K3SPEC_NAMESPACE
