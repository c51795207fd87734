#pragma once
/// \file
/// log softmax(x)_v = (x_v - m) - log Σ_w exp(x_w - m), m the row's largest. The largest is subtracted first and never
/// added back: a sum m + log Σ would round off of log Σ what does not fit beside m, and the relative error of every
/// probability would grow with m. In this order it is that of the differences x - m, however large the logits.
/// defines: log_mass_of, log_softmax_of, log_softmax

#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE {

/// log Σ_v exp(x_v - m), given any m near the row's largest that has no derivative of its own: with row_max taken once
/// for several formulas, each sums up a row once.
template <expr::Expression E, expr::Expression M>
constexpr auto log_mass_of(E x, M largest) {
  return log(row_sum(exp(x - largest)));
}

/// (x - m) - log Σ exp(x - m), m as above.
template <expr::Expression E, expr::Expression M>
constexpr auto log_softmax_of(E x, M largest) {
  return (x - largest) - log_mass_of(x, largest);
}

/// log softmax(x) over a row.
template <expr::Expression E>
constexpr auto log_softmax(E x) {
  return log_softmax_of(x, detach(row_max(x)));
}

}  // namespace K3SPEC_NAMESPACE
