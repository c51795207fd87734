#pragma once
/// \file
/// Columns of a matrix by their indices.
/// defines: gather_columns

#include <k3spec/backend/cpu/gather_columns.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// from [rows, n], columns [m] -> to [rows, m]: to[r, j] = from[r, columns[j]], in to's type
/// \throws Error on a `to` of another shape, or, where the host reads them, a column that `from` has not
template <Device D, class T, class S>
void gather_columns(const D& device, const Vector<const placed_as_t<index_t, S>>& columns, const Matrix<const T>& from,
                    const Matrix<S>& to) {
  if constexpr (shares_memory<D>) require_ids("gather_columns: columns", columns, from.extent(1));
  require_shape("gather_columns: to", to, from.extent(0), columns.extent(0));
  gather_columns_kernel(device, columns, from, to);
}

}  // namespace K3SPEC_NAMESPACE
