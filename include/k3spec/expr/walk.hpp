#pragma once
/// \file
/// The way back through an expression: adjoints of reductions and operands, for one packet of lanes on any device.
/// defines: expr::RowState, AdjointSink, WalkTapes, walk, reads_column, any_column_gradient, differentiate_scratch

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

/// Tapes of a tree and of what its reductions add up, in P.
template <class P, class E>
class WalkTapes {
 public:
  typename E::template Tape<P> whole;

  /// The tape inside reduction Which.
  template <int Which>
  K3SPEC_HOST_DEVICE auto& inside() {
    return std::get<static_cast<std::size_t>(Which)>(inside_);
  }

 private:
  // Tree is E, named anew: clang looks for `reduction` where it knows the type, and a placeholder has none.
  template <class Tree, int Which>
  using Summed = typename decltype(std::declval<Tree>().template reduction<Which, 0>().node.in)::template Tape<P>;
  template <class Tree>
  static auto all(std::integer_sequence<int>) -> std::tuple<>;
  template <class Tree, int First, int... Rest>
  static auto all(std::integer_sequence<int, First, Rest...>) -> std::tuple<Summed<Tree, First>, Summed<Tree, Rest>...>;

  decltype(all<E>(std::make_integer_sequence<int, E::reductions>{})) inside_;
};

/// Forward through the whole tree, and through what reductions Which and above add up.
template <int Which, class P, class E, class Env>
[[gnu::always_inline]] inline K3SPEC_HOST_DEVICE void walk_forward(const E& e, const Env& env, WalkTapes<P, E>& tapes) {
  if constexpr (Which < E::reductions) {
    const auto found = e.template reduction<Which, 0>();
    found.node.in.template forward<std::remove_cvref_t<decltype(found)>::base>(tapes.template inside<Which>(), env);
    walk_forward<Which + 1>(e, env, tapes);
  } else {
    e.template forward<0>(tapes.whole, env);
  }
}

/// Sends the known adjoints of reductions Which and above through their own subtrees.
template <int Which, class P, class E, class S, class Sink>
[[gnu::always_inline]] inline K3SPEC_HOST_DEVICE void walk_reductions(const E& e, WalkTapes<P, E>& tapes,
                                                                      const S* adjoint, index_t columns, Sink& sink) {
  if constexpr (Which < E::reductions) {
    const auto found = e.template reduction<Which, 0>();
    using Found = std::remove_cvref_t<decltype(found)>;
    using Node = std::remove_cvref_t<decltype(found.node)>;
    if constexpr (!std::is_same_v<typename Node::op, Maximum>) {
      const P d(Node::op::share(adjoint[Which], columns));
      found.node.in.template backward<Found::base>(tapes.template inside<Which>(), d, sink);
    }
    walk_reductions<Which + 1>(e, tapes, adjoint, columns, sink);
  }
}

/// Sends d_y through the whole tree, and the adjoints of reductions From and above through theirs.
/// \param tapes  where env computes all nodes, anything; where it leaves out a row's constants, those of the row
template <int From, class P, class E, class Env, class Sink>
[[gnu::always_inline]] inline K3SPEC_HOST_DEVICE void walk(const E& e, const Env& env, WalkTapes<P, E>& tapes,
                                                           const typename Env::scalar* adjoint, index_t columns, P d_y,
                                                           Sink& sink) {
  walk_forward<From>(e, env, tapes);
  e.template backward<0>(tapes.whole, d_y, sink);
  walk_reductions<From>(e, tapes, adjoint, columns, sink);
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
