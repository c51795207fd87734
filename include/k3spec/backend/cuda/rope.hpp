#pragma once
/// \file
/// Rotary positions on a card (ops/rope.hpp). A thread turns a pair of columns in a few heads of one row, for which it
/// computes cos and sin once. These are the CUDA library's, as they are the host's on Cpu: there may be differences in
/// the last places. All else is the same operations.
/// defines: rope_kernel

#include <algorithm>
#include <cmath>
#include <tuple>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/rope_problem.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// The slices to be turned: those of heads 0 … count-1 in a row of q, and the one in a row of k_rope.
template <class T>
struct RopeSlices {
  Matrix<T> q, k_rope;
  index_t count, width, first;  ///< heads; columns of one; where in it the slice begins

  __device__ T* operator()(index_t row, index_t head) const {
    return head < count ? q.row(row) + head * width + first : k_rope.row(row);
  }
};

/// Heads for which a thread uses cos and sin.
inline constexpr index_t heads_per_angle = 8;

/// Kernel: a thread for each (row, group of heads, pair of columns). Frequencies are read where the launch put them: a
/// thread's own copy would stand in memory, since its index is known at run time only.
template <index_t Rope, class T>
__global__ void __launch_bounds__(256, 2) rotate_pairs(const __grid_constant__ RopeFrequencies<Rope> frequencies,
                                                       RotaryPositions positions, RopeSlices<T> slices, Rotation to) {
  using S = accumulate_t<T>;
  constexpr index_t pairs = Rope / 2;
  const index_t groups = slices.count / heads_per_angle + 1;
  for_items(slices.q.extent(0) * groups * pairs, [&](index_t item) {
    const index_t pair = item % pairs, group = item / pairs % groups, row = item / pairs / groups;
    const float angle = static_cast<float>(positions(row)) * frequencies[static_cast<std::size_t>(pair)];
    const S cos = std::cos(static_cast<S>(angle)), ahead = std::sin(static_cast<S>(angle));
    // Both signs are there: a u c - v s beside a u s + v c is what g++ 12 may fuse, see backend/cpu/rope.hpp.
    const S sin = to == Rotation::back ? -ahead : ahead, minus_sin = -sin;
    const index_t begin = group * heads_per_angle;
    const index_t end = begin + heads_per_angle <= slices.count ? begin + heads_per_angle : slices.count + 1;
    for (index_t head = begin; head < end; ++head) {
      T* x = slices(row, head) + 2 * pair;
      const S u = static_cast<S>(x[0]), v = static_cast<S>(x[1]);
      x[0] = static_cast<T>(u * cos + v * minus_sin);
      x[1] = static_cast<T>(u * sin + v * cos);
    }
  });
}

}  // namespace cuda

/// Either rotation; positions that are given are device memory.
template <class Heads, class T>
void rope_kernel(const Cuda& cuda, const RopeProblem<Heads, Placed<T, Cuda>>& p, Rotation to) {
  const index_t rows = p.q.extent(0);
  const cuda::RopeSlices<T> slices{bare(p.q), bare(p.k_rope), Heads::count, Heads::qk, Heads::nope};
  cuda.require_device_memory(p.q, "rope: q");
  cuda.require_device_memory(p.k_rope, "rope: k_rope");
  if (rows == 0 || Heads::rope == 0) return;
  if (p.positions.ids != nullptr) {
    cuda.require_device_memory(Vector<const index_t>(p.positions.ids, rows), "rope: positions");
  }
  const index_t groups = Heads::count / cuda::heads_per_angle + 1;
  cuda::launch(cuda, cuda::item_shape(cuda, rows * groups * (Heads::rope / 2)), cuda::rotate_pairs<Heads::rope, T>,
               p.frequencies, p.positions, slices, to);
}

}  // namespace K3SPEC_NAMESPACE
