#pragma once
/// \file
/// The adjoints of rows on a card (ops/row_adjoints.hpp), a thread a row.
/// defines: row_adjoints_kernel

#include <cstdint>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/row_adjoint.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: 0 where a row does not count.
template <class S>
__global__ void __launch_bounds__(256, 2)
    adjoints_of_rows(RowAdjoint rule, Vector<const std::uint8_t> counts, Vector<const S> alphas, Vector<S> d_rows) {
  for_items(d_rows.extent(0), [&](index_t r) { d_rows(r) = counts(r) != 0 ? rule(alphas(r)) : S(0); });
}

}  // namespace cuda

/// d_rows[r] = rule(alphas[r]) where row r counts, else 0
template <class S>
void row_adjoints_kernel(const Cuda& cuda, const RowAdjoint& rule,
                         const Vector<const Placed<std::uint8_t, Cuda>>& counts,
                         const Vector<const Placed<S, Cuda>>& alphas, const Vector<Placed<S, Cuda>>& d_rows) {
  cuda.require_device_memory(counts, "row_adjoints: counts");
  cuda.require_device_memory(alphas, "row_adjoints: alphas");
  cuda.require_device_memory(d_rows, "row_adjoints: d_rows");
  if (d_rows.extent(0) == 0) return;
  cuda::launch(cuda, cuda::item_shape(cuda, d_rows.extent(0)), cuda::adjoints_of_rows<S>, rule, bare(counts),
               bare(alphas), bare(d_rows));
}

}  // namespace K3SPEC_NAMESPACE
