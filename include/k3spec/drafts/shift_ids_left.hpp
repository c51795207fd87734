#pragma once
/// \file
/// Token ids moved towards the start of their sequences.
/// defines: shift_ids_left

#include <k3spec/backend/cpu/shift_ids_left.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// out(r) = ids(r + by) within each sequence of `length` ids, 0 past its end; out and ids do not overlap. Index is
/// index_t, in the device's memory.
/// \throws Error on an `out` of another size
template <Device D, class Index>
void shift_ids_left(const D& device, const Vector<const Index>& ids, index_t length, index_t by,
                    const Vector<Index>& out) {
  static_assert(std::is_same_v<Index, element_t<D, index_t>>, "shift_ids_left: ids that the device reads");
  require_rows("shift_ids_left: out", out, ids.extent(0));
  shift_ids_left_kernel(device, ids, length, by, out);
}

}  // namespace K3SPEC_NAMESPACE
