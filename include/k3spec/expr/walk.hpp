#pragma once
/// \file
/// The way back through an expression: adjoints of reductions and operands, for one packet of lanes on any device.
/// defines: expr::RowState, AdjointSink, walk, reads_column, any_column_gradient, differentiate_scratch

#include <array>
#include <tuple>
#include <utility>

#include <k3spec/core/arena.hpp>
#include <k3spec/expr/reads.hpp>
#include <k3spec/expr/results.hpp>

namespace K3SPEC_NAMESPACE::expr {

/// True if placeholder I is read per column: its gradient is a sum over rows.
template <int I, class E>
inline constexpr bool reads_column = reads<I, Reads::column, E>;

/// True if a gradient of type G, a tuple of destinations, asks for a sum over rows.
template <class E, class... G>
constexpr bool any_column_gradient(const std::tuple<G...>*) {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return ((reads_column<static_cast<int>(I), E> && !std::is_same_v<G, NoGradient>) || ...);
  }
  (std::index_sequence_for<G...>{});
}

/// Values and adjoints of the reductions of one row.
template <class S, int M>
struct RowState {
  std::array<S, static_cast<std::size_t>(M == 0 ? 1 : M)> value, adjoint;
};

/// Adjoints of N operands and M reductions in P, summed over a tree walk.
template <class S, class P, int N, int M>
struct AdjointSink {
  std::array<P, static_cast<std::size_t>(N == 0 ? 1 : N)> operands;
  std::array<P, static_cast<std::size_t>(M == 0 ? 1 : M)> reductions;

  K3SPEC_HOST_DEVICE AdjointSink() {
    for (P& p : operands) p = P(S(0));
    for (P& p : reductions) p = P(S(0));
  }
  template <int I>
  K3SPEC_HOST_DEVICE void add(P d) {
    operands[I] = operands[I] + d;
  }
  template <int R>
  K3SPEC_HOST_DEVICE void add_reduced(P d) {
    reductions[R] = reductions[R] + d;
  }
};

/// Sends the known adjoints of reductions Which and above through their own subtrees.
template <class P, int Which, class E, class Env, class Sink>
K3SPEC_HOST_DEVICE void walk_reductions(const E& e, const Env& env, const typename Env::scalar* adjoint,
                                        index_t columns, Sink& sink) {
  if constexpr (Which < E::reductions) {
    const auto found = e.template reduction<Which, 0>();
    using Found = std::remove_cvref_t<decltype(found)>;
    using Node = std::remove_cvref_t<decltype(found.node)>;
    if constexpr (!std::is_same_v<typename Node::op, Maximum>) {
      typename decltype(Node::in)::template Tape<P> tape;
      found.node.in.template forward<Found::base>(tape, env);
      found.node.in.template backward<Found::base>(tape, P(Node::op::share(adjoint[Which], columns)), sink);
    }
    walk_reductions<P, Which + 1>(e, env, adjoint, columns, sink);
  }
}

/// Sends d_y through the whole tree, and the adjoints of reductions From and above through theirs.
template <class P, int From, class E, class Env, class Sink>
K3SPEC_HOST_DEVICE void walk(const E& e, const Env& env, const typename Env::scalar* adjoint, index_t columns, P d_y,
                             Sink& sink) {
  typename E::template Tape<P> tape;
  e.template forward<0>(tape, env);
  e.template backward<0>(tape, d_y, sink);
  walk_reductions<P, From>(e, env, adjoint, columns, sink);
}

}  // namespace K3SPEC_NAMESPACE::expr

namespace K3SPEC_NAMESPACE {

/// Bytes of scratch that differentiate takes for `rows` rows, on every device: only expressions with both a row
/// reduction and a column gradient need any.
template <class E, class S>
constexpr std::size_t differentiate_scratch(index_t rows) {
  return plan_bytes([&](auto& a) { a.template take<expr::RowState<S, E::reductions>>(E::reductions > 0 ? rows : 0); });
}

}  // namespace K3SPEC_NAMESPACE
