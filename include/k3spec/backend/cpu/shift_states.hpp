#pragma once
/// \file
/// States moved towards the start of their sequences on the CPU (batches/teacher.hpp).
/// defines: shift_states_kernel

#include <algorithm>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// x[r] = x[r + 1] but for the last row of each sequence of `length`, in ascending order: in place.
template <AnyView X>
void shift_states_kernel(const Cpu& device, const X& x, index_t length) {
  parallel_for(device, x.extent(0) / length, [&](index_t sequence) {
    const index_t first = sequence * length;
    for (index_t r = first; r + 1 < first + length; ++r) std::copy_n(x.row(r + 1), x.row_size(), x.row(r));
  });
}

}  // namespace K3SPEC_NAMESPACE
