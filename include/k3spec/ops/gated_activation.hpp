#pragma once
/// \file
/// The gated activations of the MLPs and the attention's output gate, as expressions: operand 0 is the gate (for the
/// output gate: what is gated), operand 1 the other one.
/// defines: situ_formula, swiglu_formula, output_gate_formula

#include <optional>

#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE {

/// β·tanh(g/β)·σ(g) · λ·tanh(u/λ): Kimi K3's gated activation.
constexpr auto situ_formula(double beta, double linear_beta) {
  constexpr auto g = expr::arg<0>;
  constexpr auto u = expr::arg<1>;
  return beta * tanh(g / beta) * sigmoid(g) * (linear_beta * tanh(u / linear_beta));
}

/// The same with `up` left as it is (linear_beta none).
constexpr auto situ_formula(double beta) {
  constexpr auto g = expr::arg<0>;
  return beta * tanh(g / beta) * sigmoid(g) * expr::arg<1>;
}

/// silu(g) · u
constexpr auto swiglu_formula() {
  constexpr auto g = expr::arg<0>;
  return g * sigmoid(g) * expr::arg<1>;
}

/// o · σ(g)
constexpr auto output_gate_formula() { return expr::arg<0> * sigmoid(expr::arg<1>); }

}  // namespace K3SPEC_NAMESPACE
