#pragma once
/// \file
/// The largest of a row, on the CPU (ops/argmax.hpp).
/// defines: argmax_row, argmax_kernel

#include <k3spec/backend/cpu/evaluate.hpp>

namespace K3SPEC_NAMESPACE {

/// The index of the largest of n numbers, the first of several; see ops/argmax.hpp for NaN.
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

/// x [rows, n] -> y [rows]
template <AnyView X>
void argmax_kernel(const Cpu& device, const X& x, const Vector<index_t>& y) {
  cpu::for_pieces(device, x.extent(0), x.row_size(), false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) y(r) = argmax_row(x.row(r), x.row_size());
  });
}

}  // namespace K3SPEC_NAMESPACE
