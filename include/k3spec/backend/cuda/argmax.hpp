#pragma once
/// \file
/// The largest of each row on a card (ops/argmax.hpp), by a team of threads. Which of two comes first depends on them
/// alone, so the order in which they are compared does not matter.
/// defines: argmax_kernel

#include <limits>
#include <tuple>

#include <k3spec/backend/cuda/evaluate.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>
#include <k3spec/backend/cuda/team.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// A number of a row, and where it stands; what it begins with gives way to any number.
template <class S>
struct Largest {
  S value = -std::numeric_limits<S>::infinity();
  index_t column = std::numeric_limits<index_t>::max();

  /// The larger of the two, where they are equal the first; NaN counts as the largest.
  __device__ void take(const Largest& other) {
    const bool nan = value != value, other_nan = other.value != other.value;
    const bool same = nan ? other_nan : other.value == value;
    if (same ? other.column < column : !nan && (other_nan || other.value > value)) *this = other;
  }
};

/// Kernel: a team for each row.
template <int V, int Warps, class T>
__global__ void __launch_bounds__(256, 2) argmax_rows(Matrix<const T> x, Vector<index_t> y, unsigned aligned) {
  using Rows = Team<Warps, V>;
  using S = accumulate_t<T>;
  Rows::for_rows(x.extent(0), [&](index_t row) {
    Largest<S> best;
    Rows::for_columns(x.extent(1), [&](index_t column, int n, int) {
      S lanes[V];
      load_lanes<V>(x.row(row) + column, n, aligned != 0, lanes);
      K3SPEC_UNROLL
      for (int j = 0; j < V; ++j) {
        if (j < n) best.take({lanes[j], column + j});
      }
    });
    K3SPEC_UNROLL
    for (unsigned apart = warp / 2; apart > 0; apart /= 2) {
      best.take({__shfl_down_sync(~0U, best.value, apart), __shfl_down_sync(~0U, best.column, apart)});
    }
    if constexpr (Warps > 1) {
      __shared__ S values[Warps];
      __shared__ index_t columns[Warps];
      const int mine = Rows::rank() / warp;
      if (Rows::rank() % warp == 0) values[mine] = best.value, columns[mine] = best.column;
      __syncthreads();
      for (int w = 1; w < Warps; ++w) best.take({values[w], columns[w]});
      __syncthreads();
    }
    if (Rows::rank() == 0) y(row) = best.column;
  });
}

}  // namespace cuda

/// x [rows, n] -> y [rows]
template <AnyView X>
void argmax_kernel(const Cuda& cuda, const X& x, const Vector<Placed<index_t, Cuda>>& y) {
  static_assert(cuda::on_card<X>, "argmax on Cuda: x is no view of element_t<Cuda, T>");
  using T = value_t<typename X::value_type>;
  constexpr int V = cuda::lanes_per_thread<T>;
  const Matrix<const T> from = bare(as_matrix(x));
  cuda.require_device_memory(from, "argmax: x");
  cuda.require_device_memory(y, "argmax: y");
  if (from.extent(0) == 0) return;
  cuda::with_team(from.extent(1), [&](auto warps) {
    constexpr int Warps = decltype(warps)::value;
    cuda::launch(cuda, cuda::team_shape(cuda, from.extent(0), Warps), cuda::argmax_rows<V, Warps, T>, from, bare(y),
                 cuda::aligned_bits(std::tuple(from)));
  });
}

}  // namespace K3SPEC_NAMESPACE
