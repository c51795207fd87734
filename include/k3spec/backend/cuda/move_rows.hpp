#pragma once
/// \file
/// Rows copied to other places, on a card (ops/move_rows.hpp). The host has compared the moves; a column to spread to
/// that is none is left out, and Cuda::synchronize tells of it.
/// defines: move_rows_kernel

#include <tuple>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>
#include <k3spec/backend/move_rows.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: rows as they are.
template <int V, class T>
__global__ void __launch_bounds__(256, 2)
    move_rows(Vector<const RowMove> moves, Matrix<const T> from, Matrix<T> to, unsigned aligned) {
  for_lanes<V>(moves.extent(0), from.extent(1), [&](index_t i, index_t column, int n) {
    const RowMove move = moves(i);
    T lanes[V];
    load_lanes<V>(from.row(move.from) + column, n, (aligned & 1U) != 0, lanes);
    store_lanes<V>(lanes, to.row(move.to) + column, n, (aligned & 2U) != 0);
  });
}

/// Kernel: rows whose column j goes to columns(j).
template <class T>
__global__ void __launch_bounds__(256, 2) spread_rows(Vector<const RowMove> moves, Vector<const index_t> columns,
                                                      Matrix<const T> from, Matrix<T> to, unsigned long long* faults) {
  for_lanes<1>(moves.extent(0), from.extent(1), [&](index_t i, index_t j, int) {
    const RowMove move = moves(i);
    if (is_id(columns(j), to.extent(1), j, faults)) to.row(move.to)[columns(j)] = from.row(move.from)[j];
  });
}

}  // namespace cuda

/// See ops/move_rows.hpp, which has compared the shapes.
template <class T>
void move_rows_kernel(const Cuda& cuda, const RowMoves<Placed<T, Cuda>>& problem) {
  constexpr int V = cuda::lanes_per_thread<T>;
  const auto from = bare(problem.from);
  const auto to = bare(problem.to);
  cuda.require_device_memory(problem.moves, "move_rows: moves");
  cuda.require_device_memory(problem.columns, "move_rows: columns");
  cuda.require_device_memory(from, "move_rows: from");
  cuda.require_device_memory(to, "move_rows: to");
  const index_t rows = problem.moves.extent(0), n = from.extent(1);
  if (rows == 0 || n == 0) return;
  if (problem.columns.extent(0) > 0) {
    cuda::launch(cuda, cuda::element_shape(cuda, rows, n, 1), cuda::spread_rows<T>, bare(problem.moves),
                 bare(problem.columns), from, to, cuda.faults());
  } else {
    cuda::launch(cuda, cuda::element_shape(cuda, rows, n, V), cuda::move_rows<V, T>, bare(problem.moves), from, to,
                 cuda::aligned_bits(std::tuple(from, to)));
  }
}

}  // namespace K3SPEC_NAMESPACE
