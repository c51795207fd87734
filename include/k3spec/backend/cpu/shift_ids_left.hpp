#pragma once
/// \file
/// Token ids moved towards the start of their sequences, on the CPU (drafts/shift_ids_left.hpp). They are few.
/// defines: shift_ids_left_kernel

#include <type_traits>

#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// out(r) = ids(r + by) within each sequence of `length` ids, 0 past its end.
inline void shift_ids_left_kernel(const Cpu&, const Vector<const index_t>& ids, index_t length, index_t by,
                                  const Vector<index_t>& out) {
  for (index_t r = 0; r < ids.extent(0); ++r) out(r) = r % length + by < length ? ids(r + by) : 0;
}

}  // namespace K3SPEC_NAMESPACE
