#pragma once
/// \file
/// Soft cross-entropy of a row: -Σ_v p_v log softmax(x)_v, and the softmax that makes p. Both are expressions.
/// defines: softmax_formula, soft_cross_entropy_formula

#include <k3spec/losses/log_softmax.hpp>

namespace K3SPEC_NAMESPACE {

/// Operand 0: logits [rows, n] -> probabilities [rows, n].
constexpr auto softmax_formula() { return exp(log_softmax(expr::arg<0>)); }

/// Operand 0: logits [rows, n]; operand 1: target probabilities [rows, n] -> one value per row.
constexpr auto soft_cross_entropy_formula() { return -row_sum(expr::arg<1> * log_softmax(expr::arg<0>)); }

}  // namespace K3SPEC_NAMESPACE
