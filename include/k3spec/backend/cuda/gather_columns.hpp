#pragma once
/// \file
/// Columns of a matrix by their indices on a card (ops/gather_columns.hpp). One that the matrix has not is NaN, and
/// Cuda::synchronize tells of it.
/// defines: gather_columns_kernel

#include <limits>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: neighbouring threads write neighbouring elements.
template <class T, class S>
__global__ void __launch_bounds__(256, 2)
    gather_columns(Vector<const index_t> columns, Matrix<const T> from, Matrix<S> to, unsigned long long* faults) {
  for_lanes<1>(to.extent(0), to.extent(1), [&](index_t row, index_t j, int) {
    const index_t column = columns(j);
    const bool there = is_id(column, from.extent(1), j, faults);
    to.row(row)[j] = there ? static_cast<S>(from.row(row)[column])
                           : static_cast<S>(std::numeric_limits<accumulate_t<S>>::quiet_NaN());
  });
}

}  // namespace cuda

/// to[r, j] = from[r, columns[j]]
template <class T, class S>
void gather_columns_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& columns,
                           const Matrix<const Placed<T, Cuda>>& from, const Matrix<Placed<S, Cuda>>& to) {
  cuda.require_device_memory(columns, "gather_columns: columns");
  cuda.require_device_memory(from, "gather_columns: from");
  cuda.require_device_memory(to, "gather_columns: to");
  if (to.size() == 0) return;
  cuda::launch(cuda, cuda::element_shape(cuda, to.extent(0), to.extent(1), 1), cuda::gather_columns<T, S>,
               bare(columns), bare(from), bare(to), cuda.faults());
}

}  // namespace K3SPEC_NAMESPACE
