#pragma once
/// \file
/// How an expression reads its operands.
/// defines: expr::reads

#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE::expr {

namespace detail {
template <int I, Reads What, class E>
struct ReadsAs : std::false_type {};
template <int I, Reads What>
struct ReadsAs<I, What, Placeholder<I, What>> : std::true_type {};
template <int I, Reads What, class F, class E>
struct ReadsAs<I, What, Unary<F, E>> : ReadsAs<I, What, E> {};
template <int I, Reads What, class F, class L, class R>
struct ReadsAs<I, What, Binary<F, L, R>> : std::disjunction<ReadsAs<I, What, L>, ReadsAs<I, What, R>> {};
template <int I, Reads What, class T, bool B, class E>
struct ReadsAs<I, What, Through<T, B, E>> : ReadsAs<I, What, E> {};
template <int I, Reads What, class O, class E>
struct ReadsAs<I, What, Reduce<O, E>> : ReadsAs<I, What, E> {};
}  // namespace detail

/// True if operand I is read per element, per column or per row somewhere in E.
template <int I, Reads What, class E>
inline constexpr bool reads = detail::ReadsAs<I, What, E>::value;

}  // namespace K3SPEC_NAMESPACE::expr
