#pragma once
/// \file
/// Whether an expression can be differentiated: a function of one's own may have none.
/// defines: expr::has_derivatives

#include <type_traits>

#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE::expr {

namespace detail {
template <class E>
struct HasDerivatives : std::true_type {};
template <class F>
inline constexpr bool has_derivative = requires(double x) {
  F::derivative(x, x);
};
template <class F>
inline constexpr bool has_both_derivatives = requires(double x) {
  F::left(x, x, x, x);
  F::right(x, x, x, x);
};
template <class F, class E>
struct HasDerivatives<Unary<F, E>> : std::bool_constant<has_derivative<F> && HasDerivatives<E>::value> {};
template <class F, class L, class R>
struct HasDerivatives<Binary<F, L, R>>
    : std::bool_constant<has_both_derivatives<F> && HasDerivatives<L>::value && HasDerivatives<R>::value> {};
template <class T, bool PassesAdjoint, class E>
struct HasDerivatives<Through<T, PassesAdjoint, E>> : std::bool_constant<!PassesAdjoint || HasDerivatives<E>::value> {};
template <class O, class E>
struct HasDerivatives<Reduce<O, E>> : HasDerivatives<E> {};
}  // namespace detail

/// True if every function that an adjoint of E goes through has its derivative (expr/functors.hpp).
template <class E>
inline constexpr bool has_derivatives = detail::HasDerivatives<E>::value;

}  // namespace K3SPEC_NAMESPACE::expr
