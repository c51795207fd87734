#pragma once
/// \file
/// Sums (and other reductions) over a row's columns by a team of threads.
/// defines: cuda::combine_row, cuda::reduce_row

#include <k3spec/backend/cuda/operands.hpp>
#include <k3spec/backend/cuda/team.hpp>
#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// One row of an expression's operands X, as a team's thread sees it. \tparam Reading  says how each is read (ReadBy)
template <class S, int V, class X, class Reading>
struct RowOperands {
  static constexpr std::size_t count = std::tuple_size_v<X>;
  using Env = LaneEnv<S, V, count>;

  const X& x;
  unsigned aligned;
  index_t row, columns;

  __device__ void load(index_t column, int n, Lanes<S, V, count>& lanes) const {
    load_operands<Reading>(x, aligned, row, column, n, lanes);
  }
};

/// Combines value(env) over a row's columns by O.
template <class O, class Team, class S, int V, class X, class Reading, class F>
__device__ inline S combine_row(const RowOperands<S, V, X, Reading>& row, const S* reduced, F&& value) {
  using Row = RowOperands<S, V, X, Reading>;
  S chain[chains_per_thread];
  K3SPEC_UNROLL
  for (S& c : chain) c = O::template neutral<S>();
  Team::for_columns(row.columns, [&](index_t column, int n, int first) {
    Lanes<S, V, Row::count> lanes;
    row.load(column, n, lanes);
    K3SPEC_UNROLL
    for (int j = 0; j < V; ++j) {
      if (j < n) chain[first + j] = O::combine(chain[first + j], value(typename Row::Env{lanes, reduced, j}));
    }
  });
  return Team::template combine<O>(chain);
}

/// Computes reductions 0 … E::reductions-1 of one row, inner ones first.
template <class Team, int Which = 0, class E, class Row, class S>
__device__ inline void reduce_row(const E& e, const Row& row, S* reduced) {
  if constexpr (Which < E::reductions) {
    const auto found = e.template reduction<Which, 0>();
    using Found = std::remove_cvref_t<decltype(found)>;
    using Node = std::remove_cvref_t<decltype(found.node)>;
    using O = typename Node::op;
    const S total = combine_row<O, Team>(row, reduced, [&](const auto& env) {
      typename decltype(Node::in)::template Tape<S> tape;
      found.node.in.template forward<Found::base>(tape, env);
      return tape.value;
    });
    reduced[Which] = O::finish(total, row.columns);
    reduce_row<Team, Which + 1>(e, row, reduced);
  }
}

}  // namespace K3SPEC_NAMESPACE::cuda
