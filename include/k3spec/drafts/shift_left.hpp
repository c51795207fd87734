#pragma once
/// \file
/// Token ids moved towards the start of their sequences. Ids are few, and lie on the host.
/// defines: shift_left

#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// out(r) = ids(r + by) within each sequence of `length` ids, 0 past its end.
/// \throws Error on an `out` of another size
inline void shift_left(Vector<const index_t> ids, index_t length, index_t by, const Vector<index_t>& out) {
  require_rows("shift_left: out", out, ids.extent(0));
  for (index_t r = 0; r < ids.extent(0); ++r) out(r) = r % length + by < length ? ids(r + by) : 0;
}

}  // namespace K3SPEC_NAMESPACE
