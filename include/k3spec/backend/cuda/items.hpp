#pragma once
/// \file
/// Kernels in which a thread takes an item, such as the one number of a row; and what a kernel does of an id that is
/// none of a table.
/// defines: cuda::item_shape, cuda::for_items, cuda::is_id

#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// Threads for `items` items.
inline LaunchShape item_shape(const Cuda& cuda, index_t items) {
  return {dim3(blocks_for(cuda, items, 256)), dim3(256)};
}

/// Calls f(item) for this thread's items.
template <class F>
__device__ inline void for_items(index_t items, F&& f) {
  const index_t first = index_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (index_t item = first; item < items; item += index_t{gridDim.x} * blockDim.x) f(item);
}

/// Whether id is one of `count`. If not, Cuda::synchronize names the first such row.
__device__ inline bool is_id(index_t id, index_t count, index_t row, unsigned long long* faults) {
  if (id >= 0 && id < count) return true;
  atomicMin(faults, static_cast<unsigned long long>(row));
  return false;
}

}  // namespace K3SPEC_NAMESPACE::cuda
