#pragma once
/// \file
/// What every backend is handed of rows that are copied to other places (ops/move_rows.hpp).
/// defines: RowMove, RowMoves

#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Where a row is, and where it is to be.
struct RowMove {
  index_t from, to;
};

/// Rows of one matrix that are copied to another, which do not overlap.
template <class T>
struct RowMoves {
  Vector<const placed_as_t<RowMove, T>> moves;    ///< to places that differ from one another
  Vector<const placed_as_t<index_t, T>> columns;  ///< [columns of from] where each goes; none: where it stood
  Matrix<const T> from;
  Matrix<T> to;
};
static_assert(std::is_trivially_copyable_v<RowMoves<bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
