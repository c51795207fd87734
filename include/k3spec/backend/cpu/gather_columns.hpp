#pragma once
/// \file
/// Columns of a matrix by their indices on the CPU (ops/gather_columns.hpp).
/// defines: gather_columns_kernel

#include <k3spec/backend/cpu/evaluate.hpp>

namespace K3SPEC_NAMESPACE {

/// to[r, j] = from[r, columns[j]]
template <class T, class S>
void gather_columns_kernel(const Cpu& device, const Vector<const index_t>& columns, const Matrix<const T>& from,
                           const Matrix<S>& to) {
  cpu::for_pieces(device, to.extent(0), to.extent(1), false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) {
      for (index_t j = 0; j < to.extent(1); ++j) to(r, j) = static_cast<S>(from(r, columns(j)));
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
