#pragma once
/// \file
/// The threads that work on one row, a warp or, for long rows, a block of eight, and how they combine what each of them
/// found: in the order of expr/order.hpp, so that the bits are those of every other device.
/// defines: cuda::Team, cuda::chains_per_thread

#include <cuda_runtime.h>

#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/expr/order.hpp>

namespace K3SPEC_NAMESPACE::cuda {

inline constexpr int chains_per_thread = 8;

/// Threads for rows of which each has a team of `warps`.
inline LaunchShape team_shape(const Cuda& cuda, index_t rows, int warps) {
  const unsigned high = static_cast<unsigned>(chains_per_thread / warps);
  return {dim3(blocks_for(cuda, rows, high)), dim3(static_cast<unsigned>(warp * warps), high)};
}

/// `Warps` warps on one row, each thread taking V neighbouring columns at a time. Chain c of the row is number
/// k·V + j of thread t, where c = V·t + j + k·V·threads.
template <int Warps, int V>
struct Team {
  static constexpr int threads = warp * Warps;
  static_assert(threads * chains_per_thread == (Warps == 1 ? expr::row_chains(1) : expr::most_row_chains));
  static_assert(V <= chains_per_thread);

  /// This thread's place in its team.
  __device__ static int rank() { return static_cast<int>(threadIdx.x); }

  /// Calls f(row) for each row of this team.
  template <class F>
  __device__ static void for_rows(index_t rows, F&& f) {
    const index_t first = index_t{blockIdx.x} * blockDim.y + threadIdx.y;
    for (index_t row = first; row < rows; row += index_t{gridDim.x} * blockDim.y) f(row);
  }

  /// Calls f(column, count, first chain) for this thread's columns of a row.
  template <class F>
  __device__ static void for_columns(index_t columns, F&& f) {
    constexpr int tile = threads * V, tiles = chains_per_thread / V;
    for (index_t begin = index_t{rank()} * V; begin < columns; begin += index_t{tile} * tiles) {
      K3SPEC_UNROLL
      for (int k = 0; k < tiles; ++k) {
        const index_t column = begin + k * tile;
        if (column < columns) f(column, static_cast<int>(columns - column < V ? columns - column : V), k * V);
      }
    }
  }

  /// All chains of the row combined by O; the same value in each thread. All threads of the team must call it.
  template <class O, class S>
  __device__ static S combine(S (&chain)[chains_per_thread]) {
    K3SPEC_UNROLL
    for (int half = chains_per_thread / 2; half >= V; half /= 2) fold_upper_half<O>(chain, half);
    if constexpr (Warps > 1) across_warps<O>(chain);
    K3SPEC_UNROLL
    for (unsigned apart = warp / 2; apart > 0; apart /= 2) {
      K3SPEC_UNROLL
      for (int j = 0; j < V; ++j) chain[j] = O::combine(chain[j], __shfl_down_sync(~0U, chain[j], apart));
    }
    K3SPEC_UNROLL
    for (int half = V / 2; half > 0; half /= 2) fold_upper_half<O>(chain, half);
    return from_first(chain[0]);
  }

 private:
  template <class O, class S>
  __device__ static void fold_upper_half(S (&chain)[chains_per_thread], int half) {
    K3SPEC_UNROLL
    for (int c = 0; c < chains_per_thread / 2; ++c) {
      if (c < half) chain[c] = O::combine(chain[c], chain[c + half]);
    }
  }

  /// Halves V chains of each thread until the first warp holds all. Only those that are taken in are written, so that
  /// nothing still to be read is; from_first's barrier stands before the next row's.
  template <class O, class S>
  __device__ static void across_warps(S (&chain)[chains_per_thread]) {
    __shared__ S shared[threads * V];
    for (int apart = threads / 2; apart >= warp; apart /= 2) {
      if (rank() >= apart && rank() < 2 * apart) {
        K3SPEC_UNROLL
        for (int j = 0; j < V; ++j) shared[rank() * V + j] = chain[j];
      }
      __syncthreads();
      if (rank() < apart) {
        K3SPEC_UNROLL
        for (int j = 0; j < V; ++j) chain[j] = O::combine(chain[j], shared[(rank() + apart) * V + j]);
      }
    }
  }

  template <class S>
  __device__ static S from_first(S value) {
    if constexpr (Warps == 1) {
      return __shfl_sync(~0U, value, 0);
    } else {
      // Before it is written again all threads have met in across_warps.
      __shared__ S shared;
      if (rank() == 0) shared = value;
      __syncthreads();
      return shared;
    }
  }
};

}  // namespace K3SPEC_NAMESPACE::cuda
