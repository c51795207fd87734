#pragma once
/// \file
/// y[r] = the first column that holds row r's largest value. x [rows, n], n > 0. NaN counts as the largest: the first
/// one wins, so x[y] is finite exactly when the row has no NaN and its largest value is finite.
/// defines: argmax_row, argmax

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// The index of the largest of n numbers, the first of several; see above for NaN.
template <class T>
index_t argmax_row(const T* x, index_t n) {
  index_t best = 0;
  for (index_t j = 0; j < n; ++j) {
    if (x[j] <= x[best]) continue;
    best = j;
    if (x[j] != x[j]) break;
  }
  return best;
}

/// x [rows, n] -> y [rows], each the index of its row's largest number, see argmax_row.
/// \throws Error on rows without columns, or a y of another number of them
template <AnyView X>
void argmax(const Cpu& cpu, const X& x, Vector<index_t> y) {
  require_rows("argmax: y", y, x.extent(0));
  if (x.extent(0) > 0 && x.row_size() < 1) throw Error("argmax: x: columns", "0", "at least 1");
  cpu::for_pieces(cpu, x.extent(0), x.row_size(), false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) y(r) = argmax_row(x.row(r), x.row_size());
  });
}

}  // namespace K3SPEC_NAMESPACE
