#pragma once
/// \file
/// Reductions over a row inside an expression: `x * rsqrt(row_mean(x * x) + eps)`. A reduction is one value for the
/// whole row; reductions may stand inside one another. They are numbered inner first, left to right.
/// defines: expr::Sum, Mean, Maximum, Reduce, FoundReduction, row_sum, row_mean, row_max

#include <limits>

#include <k3spec/core/extents.hpp>
#include <k3spec/expr/nodes.hpp>

namespace K3SPEC_NAMESPACE::expr {

// clang-format off
/// The sum of a row.
struct Sum {
  template <class S> K3SPEC_HOST_DEVICE static constexpr S neutral() { return S(0); }
  template <class P> K3SPEC_HOST_DEVICE static P combine(P a, P b) { return a + b; }
  template <class S> K3SPEC_HOST_DEVICE static S finish(S total, index_t) { return total; }
  /// What every element of the row gets of the reduction's adjoint.
  template <class S> K3SPEC_HOST_DEVICE static S share(S adjoint, index_t) { return adjoint; }
};

/// The mean of a row.
struct Mean : Sum {
  template <class S> K3SPEC_HOST_DEVICE static S finish(S total, index_t n) { return total / static_cast<S>(n); }
  template <class S> K3SPEC_HOST_DEVICE static S share(S adjoint, index_t n) { return adjoint / static_cast<S>(n); }
};

/// The largest of a row.
struct Maximum {
  template <class S> K3SPEC_HOST_DEVICE static constexpr S neutral() { return -std::numeric_limits<S>::infinity(); }
  template <class P> K3SPEC_HOST_DEVICE static P combine(P a, P b) { return functor::Max::value(a, b); }
  template <class S> K3SPEC_HOST_DEVICE static S finish(S top, index_t) { return top; }
  template <class S> K3SPEC_HOST_DEVICE static S share(S, index_t) { return S(0); }
};
// clang-format on

/// A reduction of a tree: the node, and the number of the first reduction inside it.
template <int Base, class Node>
struct FoundReduction {
  static constexpr int base = Base;
  Node node;
};

/// O of an expression's values in a row: one value per row.
template <class O, Expression E>
struct Reduce {
  using expression_tag = void;
  using op = O;
  static constexpr int reductions = E::reductions + 1;
  static constexpr bool row_constant = true;
  E in;

  /// What backward needs of forward.
  template <class P>
  struct Tape {
    P value;
  };
  template <int Base, class P, class Env>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void forward(Tape<P>& t, const Env& env) const {
    if constexpr (computes<Env, row_constant>()) t.value = P(env.reduced(Base + E::reductions));
  }
  template <int Base, class P, class Sink>
  [[gnu::always_inline]] K3SPEC_HOST_DEVICE void backward(const Tape<P>&, P d, Sink& sink) const {
    static_assert(!std::is_same_v<O, Maximum>,
                  "row_max has no derivative here: write detach(row_max(e)) where the result does not depend on it");
    sink.template add_reduced<Base + E::reductions>(d);
  }
  /// Reduction number Which of the tree.
  template <int Which, int Base>
  K3SPEC_HOST_DEVICE constexpr auto reduction() const {
    if constexpr (Which == Base + E::reductions) {
      return FoundReduction<Base, Reduce>{*this};
    } else {
      return in.template reduction<Which, Base>();
    }
  }
};

// clang-format off
/// The sum of a row.
template <Expression E> constexpr Reduce<Sum, E> row_sum(E e) { return {e}; }
/// The mean of a row.
template <Expression E> constexpr Reduce<Mean, E> row_mean(E e) { return {e}; }
/// The largest of a row.
template <Expression E> constexpr Reduce<Maximum, E> row_max(E e) { return {e}; }
// clang-format on

}  // namespace K3SPEC_NAMESPACE::expr
