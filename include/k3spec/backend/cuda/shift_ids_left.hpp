#pragma once
/// \file
/// Token ids moved towards the start of their sequences, on a card (drafts/shift_ids_left.hpp).
/// defines: shift_ids_left_kernel

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: ids within sequences of `length`. (A template, so that many units may have it.)
template <class Index>
__global__ void __launch_bounds__(256, 2)
    shift_ids_left(Vector<const Index> ids, index_t length, index_t by, Vector<Index> out) {
  for_items(ids.extent(0), [&](index_t r) { out(r) = r % length + by < length ? ids(r + by) : 0; });
}

}  // namespace cuda

/// out(r) = ids(r + by) within each sequence of `length` ids, 0 past its end; they do not overlap.
inline void shift_ids_left_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& ids, index_t length,
                                  index_t by, const Vector<Placed<index_t, Cuda>>& out) {
  cuda.require_device_memory(ids, "shift_ids_left: ids");
  cuda.require_device_memory(out, "shift_ids_left: out");
  if (ids.extent(0) == 0) return;
  cuda::launch(cuda, cuda::item_shape(cuda, ids.extent(0)), cuda::shift_ids_left<index_t>, bare(ids), length, by,
               bare(out));
}

}  // namespace K3SPEC_NAMESPACE
