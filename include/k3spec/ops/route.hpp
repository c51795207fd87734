#pragma once
/// \file
/// Choice of experts by their scores σ(x W), row by row as backend/route_row.hpp says, the order of rows by expert, and
/// the sum of what experts gave.
/// scores [rows, experts]; ids, weights [rows, k], ids ascending.
/// defines: route, ExpertRows, sort_by_expert, gather_expert_rows, combine_experts

#include <k3spec/backend/cpu/embedding.hpp>
#include <k3spec/backend/cpu/route.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// scores [rows, experts] -> ids and weights [rows, top k], see above.
/// \throws Error on shapes that are not the config's
template <class Config, class S, Device D>
void route(const D& device, const Matrix<S>& scores, const Vector<const S>& correction,
           const Matrix<placed_as_t<index_t, S>>& ids, const Matrix<S>& weights) {
  const index_t rows = scores.extent(0);
  require_shape("route: scores", scores, rows, Routing<Config>::experts);
  require_count("route: correction", correction.extent(0), Routing<Config>::experts);
  require_shape("route: ids", ids, rows, Routing<Config>::chosen);
  require_shape("route: weights", weights, rows, Routing<Config>::chosen);
  route_kernel(device, Routing<Config>{}, scores, correction, ids, weights);
}

/// The (row, choice) pairs sorted by expert, rows ascending within one: expert e has places [begin[e], begin[e + 1]).
/// \tparam Id  index_t, where the rows are
template <class Id = index_t>
struct ExpertRows {
  Vector<Id> begin;  ///< [experts + 1]
  Vector<Id> row;    ///< [rows · k], the row at a place
  Matrix<Id> place;  ///< [rows, k], the place of a row's i-th choice

  template <Allocator A>
  static constexpr ExpertRows allocate(A& a, index_t rows, index_t experts, index_t chosen) {
    const auto take = [&](index_t n) { return a.template take<Id>(n); };
    return {Vector<Id>(take(experts + 1), experts + 1), Vector<Id>(take(rows * chosen), rows * chosen),
            Matrix<Id>(take(rows * chosen), rows, chosen)};
  }
};

/// Sorts the rows by the experts that they chose. ids [rows, k]
/// \throws Error on ids of another shape than planned, or, where they are the host's memory, of no expert
template <Device D, class Id>
void sort_by_expert(const D& device, const Matrix<Id>& ids, const ExpertRows<Id>& to) {
  require_shape("sort_by_expert: ids", ids, to.place.extent(0), to.place.extent(1));
  require_count("sort_by_expert: row", to.row.extent(0), ids.size());
  require_expert_ids(device, Matrix<const Id>(ids), to.begin.extent(0) - 1);
  sort_by_expert_kernel(device, Matrix<const Id>(ids), to.begin, to.row, to.place);
}

/// to[place] = from[row]
/// \throws Error on shapes that do not fit what was sorted
template <class T, Device D>
void gather_expert_rows(const D& device, const ExpertRows<placed_as_t<index_t, T>>& experts, const Matrix<T>& from,
                        const Matrix<T>& to) {
  require_count("gather_expert_rows: row", experts.row.extent(0), experts.place.size());
  require_rows("gather_expert_rows: from", from, experts.place.extent(0));
  require_shape("gather_expert_rows: to", to, experts.row.extent(0), from.extent(1));
  gather_rows_kernel(device, Vector<const placed_as_t<index_t, T>>(experts.row), Matrix<const T>(from), to);
}

/// y[r] = Σ_i weights[r, i] · results[place(r, i)], experts ascending, rounded once.
/// \throws Error on shapes that do not fit what was sorted
template <class S, class T, Device D>
void combine_experts(const D& device, const ExpertRows<placed_as_t<index_t, T>>& experts, const Matrix<S>& results,
                     const Matrix<S>& weights, const Matrix<T>& y) {
  const index_t rows = experts.place.extent(0);
  require_count("combine_experts: row", experts.row.extent(0), experts.place.size());
  require_rows("combine_experts: results", results, experts.row.extent(0));
  require_shape("combine_experts: weights", weights, rows, experts.place.extent(1));
  require_shape("combine_experts: y", y, rows, results.extent(1));
  combine_experts_kernel(device, Matrix<const placed_as_t<index_t, T>>(experts.place), results, weights, y);
}

}  // namespace K3SPEC_NAMESPACE
