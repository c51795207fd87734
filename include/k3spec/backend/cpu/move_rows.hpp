#pragma once
/// \file
/// Rows copied to other places, on the CPU (ops/move_rows.hpp).
/// defines: move_rows_kernel

#include <algorithm>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/move_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// See ops/move_rows.hpp, which has compared the shapes.
template <class T>
void move_rows_kernel(const Cpu& device, const RowMoves<T>& problem) {
  const index_t n = problem.from.extent(1);
  const bool spreads = problem.columns.extent(0) > 0;
  cpu::for_pieces(device, problem.moves.extent(0), n, false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t i = begin; i < end; ++i) {
      const T* from = problem.from.row(problem.moves(i).from);
      T* to = problem.to.row(problem.moves(i).to);
      if (!spreads) std::copy_n(from, n, to);
      for (index_t j = 0; spreads && j < n; ++j) to[problem.columns(j)] = from[j];
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
