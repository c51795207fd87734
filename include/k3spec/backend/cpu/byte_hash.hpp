#pragma once
/// \file
/// Hashes of bytes on the CPU (ops/byte_hash.hpp).
/// defines: hash_blocks_kernel

#include <algorithm>

#include <k3spec/backend/byte_hash.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// hashes[b] = that of the b-th block of bytes
inline void hash_blocks_kernel(const Cpu& device, const Vector<const std::byte>& bytes,
                               const Vector<std::uint64_t>& hashes) {
  parallel_for(device, hashes.extent(0), [&](index_t b) {
    const index_t begin = b * hash_block, count = std::min(hash_block, bytes.extent(0) - begin);
    hashes(b) = detail::hash_bytes({bytes.data() + begin, static_cast<std::size_t>(count)});
  });
}

}  // namespace K3SPEC_NAMESPACE
