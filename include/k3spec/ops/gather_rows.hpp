#pragma once
/// \file
/// Rows of a matrix by their indices, and back to where they stood.
/// defines: gather_rows, scatter_rows

#include <type_traits>

#include <k3spec/backend/cpu/embedding.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// to[i] = from[rows[i]]
/// \throws Error on a `to` of another shape, or, where the host reads them, a row that `from` has not
template <Device D, AnyView X, AnyView Y>
void gather_rows(const D& device, Vector<const index_beside_t<X>> rows, const X& from, const Y& to) {
  if constexpr (shares_memory<D>) require_ids("gather_rows: rows", rows, from.extent(0));
  require_shape("gather_rows: to", to, rows.extent(0), from.row_size());
  using T = std::remove_const_t<typename X::element_type>;
  gather_rows_kernel(device, rows, Matrix<const T>(from.matrix()), to);
}

/// to[rows[i]] = from[i]; the rows differ from one another.
/// \throws Error on a `from` of another shape, or, where the host reads them, a row that `to` has not
template <Device D, AnyView X, AnyView Y>
void scatter_rows(const D& device, Vector<const index_beside_t<X>> rows, const X& from, const Y& to) {
  if constexpr (shares_memory<D>) require_ids("scatter_rows: rows", rows, to.extent(0));
  require_shape("scatter_rows: from", from, rows.extent(0), to.row_size());
  using T = std::remove_const_t<typename X::element_type>;
  scatter_rows_kernel(device, rows, Matrix<const T>(from.matrix()), to);
}

}  // namespace K3SPEC_NAMESPACE
