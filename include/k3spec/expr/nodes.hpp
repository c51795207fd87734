#pragma once
/// \file
/// Expression trees. A formula is written once, over placeholders, and is a value of its own:
/// ```cpp
/// constexpr auto g = expr::arg<0>;
/// constexpr auto u = expr::arg<1>;
/// constexpr auto situ = 4.0 * tanh(g / 4.0) * sigmoid(g) * u;
/// ```
/// Every node runs forward over one packet of lanes, keeping what it computed on a Tape, and sends an adjoint back
/// down to the placeholders. Devices supply the lanes (`Env`) and collect the adjoints (`Sink`).
///
/// `arg<I>` is element (row, column) of operand I; `column<I>` its element (column), a weight that all rows share;
/// `row<I>` its element (row), a value that all columns share.
/// defines: expr::Expression, Part, computes, Reads, Placeholder, Constant, Unary, Binary, Through, arg, column, row,
///          and the operators and functions on expressions

#include <concepts>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/expr/functors.hpp>

/// \namespace k3spec::expr
/// Formulas as values: their trees, reductions and checks.

namespace K3SPEC_NAMESPACE::expr {

/// An expression tree.
template <class E>
concept Expression = requires {
  typename std::remove_cvref_t<E>::expression_tag;
};

/// Which nodes of a tree a pass forward computes. A row's constants need computing once for all of its packets: a tape
/// that has them goes through `elements` packet by packet.
enum class Part { all, row_constants, elements };

/// True if a pass with Env computes a node that is a row's constant, or is none.
template <class Env, bool RowConstant>
constexpr bool computes() {
  if constexpr (requires { Env::part; })
    return Env::part == Part::all || (Env::part == Part::row_constants) == RowConstant;
  return true;
}

/// What a placeholder's value depends on.
enum class Reads { element, column, row };

/// An element of operand I.
template <int I, Reads What>
struct Placeholder {
  using expression_tag = void;
  /// Reductions over a row inside this tree.
  static constexpr int reductions = 0;
  /// True if the value is the same in all columns of a row.
  static constexpr bool row_constant = What == Reads::row;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    P value;
  };
  template <int, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env& env) const {
    if constexpr (computes<Env, row_constant>()) t.value = env.template load<I, What>();
  }
  template <int, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>&, P d, Sink& sink) const {
    sink.template add<I>(d);
  }
};

/// A number, the same everywhere; no adjoint reaches it.
struct Constant {
  using expression_tag = void;
  static constexpr int reductions = 0;
  static constexpr bool row_constant = true;
  double number;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    P value;
  };
  template <int, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env&) const {
    if constexpr (computes<Env, row_constant>()) t.value = P(static_cast<typename Env::scalar>(number));
  }
  template <int, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>&, P, Sink&) const {}
};

/// F of an expression.
template <class F, Expression E>
struct Unary {
  using expression_tag = void;
  static constexpr int reductions = E::reductions;
  static constexpr bool row_constant = E::row_constant;
  E in;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    typename E::template Tape<P> in;
    P value;
  };
  template <int Base, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env& env) const {
    in.template forward<Base>(t.in, env);
    if constexpr (computes<Env, row_constant>()) t.value = F::value(t.in.value);
  }
  template <int Base, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>& t, P d, Sink& sink) const {
    in.template backward<Base>(t.in, P(d * F::derivative(t.in.value, t.value)), sink);
  }
  template <int Which, int Base>
  K3SPEC_HOST_DEVICE constexpr auto reduction() const {
    return in.template reduction<Which, Base>();
  }
};

/// F of two expressions.
template <class F, Expression L, Expression R>
struct Binary {
  using expression_tag = void;
  static constexpr int reductions = L::reductions + R::reductions;
  static constexpr bool row_constant = L::row_constant && R::row_constant;
  L left;
  R right;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    typename L::template Tape<P> left;
    typename R::template Tape<P> right;
    P value;
  };
  template <int Base, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env& env) const {
    left.template forward<Base>(t.left, env);
    right.template forward<Base + L::reductions>(t.right, env);
    if constexpr (computes<Env, row_constant>()) t.value = F::value(t.left.value, t.right.value);
  }
  template <int Base, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>& t, P d, Sink& sink) const {
    const P a = t.left.value, b = t.right.value;
    left.template backward<Base>(t.left, F::left(a, b, t.value, d), sink);
    right.template backward<Base + L::reductions>(t.right, F::right(a, b, t.value, d), sink);
  }
  template <int Which, int Base>
  K3SPEC_HOST_DEVICE constexpr auto reduction() const {
    if constexpr (Which < Base + L::reductions) {
      return left.template reduction<Which, Base>();
    } else {
      return right.template reduction<Which, Base + L::reductions>();
    }
  }
};

/// A pass-through node: `in` rounded to storage type T (nothing to do for float and double), its adjoint passed on
/// as it is, or not at all.
template <class T, bool PassesAdjoint, Expression E>
struct Through {
  using expression_tag = void;
  static constexpr int reductions = E::reductions;
  static constexpr bool row_constant = E::row_constant;
  E in;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    typename E::template Tape<P> in;
    P value;
  };
  template <int Base, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env& env) const {
    in.template forward<Base>(t.in, env);
    if constexpr (!computes<Env, row_constant>()) return;
    if constexpr (std::is_same_v<T, bfloat16>) {
      t.value = round_to<bfloat16>(t.in.value);
    } else {
      t.value = t.in.value;
    }
  }
  template <int Base, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>& t, P d, Sink& sink) const {
    if constexpr (PassesAdjoint) in.template backward<Base>(t.in, d, sink);
  }
  template <int Which, int Base>
  K3SPEC_HOST_DEVICE constexpr auto reduction() const {
    return in.template reduction<Which, Base>();
  }
};

template <int I>
inline constexpr Placeholder<I, Reads::element> arg{};
template <int I>
inline constexpr Placeholder<I, Reads::column> column{};
template <int I>
inline constexpr Placeholder<I, Reads::row> row{};

/// A number as an expression.
constexpr Constant as_expression(double value) { return {value}; }
/// An expression is one already.
template <Expression E>
constexpr E as_expression(E e) {
  return e;
}

/// Two expressions, or one and a number.
template <class A, class B>
concept Operands = (Expression<A> && (Expression<B> || std::is_arithmetic_v<B>)) ||
                   (std::is_arithmetic_v<A> && Expression<B>);

namespace detail {
template <class F, Expression E>
constexpr Unary<F, E> unary(E e) {
  return {e};
}
template <class F, Expression L, Expression R>
constexpr Binary<F, L, R> binary(L l, R r) {
  return {l, r};
}
}  // namespace detail

// clang-format off
/// The sum of a and b.
template <class A, class B> requires Operands<A, B>
constexpr auto operator+(A a, B b) { return detail::binary<functor::Add>(as_expression(a), as_expression(b)); }
/// The difference a minus b.
template <class A, class B> requires Operands<A, B>
constexpr auto operator-(A a, B b) { return detail::binary<functor::Subtract>(as_expression(a), as_expression(b)); }
/// The product of a and b.
template <class A, class B> requires Operands<A, B>
constexpr auto operator*(A a, B b) { return detail::binary<functor::Multiply>(as_expression(a), as_expression(b)); }
/// The quotient a / b.
template <class A, class B> requires Operands<A, B>
constexpr auto operator/(A a, B b) { return detail::binary<functor::Divide>(as_expression(a), as_expression(b)); }
/// The smaller one.
template <class A, class B> requires Operands<A, B>
constexpr auto min(A a, B b) { return detail::binary<functor::Min>(as_expression(a), as_expression(b)); }
/// The larger one.
template <class A, class B> requires Operands<A, B>
constexpr auto max(A a, B b) { return detail::binary<functor::Max>(as_expression(a), as_expression(b)); }

/// The negative of e.
template <Expression E> constexpr auto operator-(E e) { return detail::unary<functor::Negate>(e); }
/// The exponential function.
template <Expression E> constexpr auto exp(E e) { return detail::unary<functor::Exp>(e); }
/// The natural logarithm.
template <Expression E> constexpr auto log(E e) { return detail::unary<functor::Log>(e); }
/// The hyperbolic tangent.
template <Expression E> constexpr auto tanh(E e) { return detail::unary<functor::Tanh>(e); }
/// 1 / (1 + e^-x)
template <Expression E> constexpr auto sigmoid(E e) { return detail::unary<functor::Sigmoid>(e); }
/// log(1 + e^x)
template <Expression E> constexpr auto softplus(E e) { return detail::unary<functor::Softplus>(e); }
/// The square root.
template <Expression E> constexpr auto sqrt(E e) { return detail::unary<functor::Sqrt>(e); }
/// 1 / √x
template <Expression E> constexpr auto rsqrt(E e) { return detail::unary<functor::Rsqrt>(e); }
/// The square.
template <Expression E> constexpr auto square(E e) { return detail::unary<functor::Square>(e); }
/// Without the sign.
template <Expression E> constexpr auto abs(E e) { return detail::unary<functor::Abs>(e); }
/// e rounded to storage type T; the derivative ignores the rounding.
template <class T, Expression E> constexpr Through<T, true, E> rounded_to(E e) { return {e}; }
/// e as a constant: no derivative flows through it.
template <Expression E> constexpr Through<void, false, E> detach(E e) { return {e}; }
// clang-format on

}  // namespace K3SPEC_NAMESPACE::expr
