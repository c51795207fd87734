#pragma once
/// \file
/// Where the results of an expression go: its values, and the gradients of its operands.
/// defines: formulas, outputs, NoGradient, no_gradient, overwrite, accumulate, gradients

#include <tuple>

#include <k3spec/core/view.hpp>
#include <k3spec/expr/nodes.hpp>

namespace K3SPEC_NAMESPACE {

/// Several results of one pass: `evaluate(device, formulas(e0, e1), outputs(y0, y1), operands…)`. All formulas of an
/// element are evaluated before any of its results is stored, so that operands may be among the outputs.
template <class... Y>
constexpr auto outputs(const Y&... y) {
  return std::tuple(as_matrix(y)...);
}
/// The formulas of one pass, see outputs.
template <expr::Expression... E>
constexpr std::tuple<E...> formulas(const E&... e) {
  return {e...};
}

/// An operand that gets no gradient.
struct NoGradient {};
inline constexpr NoGradient no_gradient{};

/// An operand whose gradient replaces what is in the view.
template <class T>
struct Overwrite {
  Matrix<T> to;
};
/// An operand whose gradient is added to what is in the view.
template <class T>
struct Accumulate {
  Matrix<T> to;
};

/// A destination whose content the gradient replaces.
template <class T, index_t... E>
constexpr Overwrite<T> overwrite(const View<T, E...>& v) {
  return {as_matrix(v)};
}
/// A destination that the gradient is added to.
template <class T, index_t... E>
constexpr Accumulate<T> accumulate(const View<T, E...>& v) {
  return {as_matrix(v)};
}

/// The gradients' destinations, one for each operand: no_gradient, overwrite(view) or accumulate(view).
template <class... G>
constexpr std::tuple<G...> gradients(const G&... g) {
  return {g...};
}

}  // namespace K3SPEC_NAMESPACE
