#pragma once
/// \file
/// y[r] = the first column that holds row r's largest value. x [rows, n], n > 0. NaN counts as the largest: the first
/// one wins, so x[y] is finite exactly when the row has no NaN and its largest value is finite.
/// defines: argmax

#include <k3spec/backend/cpu/argmax.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// x [rows, n] -> y [rows], each the index of its row's largest number, see argmax_row.
/// \throws Error on rows without columns, or a y of another number of them
template <Device D, AnyView X>
void argmax(const D& device, const X& x, Vector<index_beside_t<X>> y) {
  require_rows("argmax: y", y, x.extent(0));
  if (x.extent(0) > 0 && x.row_size() < 1) throw Error("argmax: x: columns", "0", "at least 1");
  argmax_kernel(device, x, y);
}

}  // namespace K3SPEC_NAMESPACE
