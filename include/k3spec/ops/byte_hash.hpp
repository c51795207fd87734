#pragma once
/// \file
/// Hashes of bytes, block by block, the same on every device and on any number of threads.
/// defines: hash_blocks

#include <k3spec/backend/cpu/byte_hash.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// bytes [n] -> hashes [blocks of hash_block bytes, the last one as long as it is]
/// \throws Error when `hashes` has not one element for each block
template <Device D>
void hash_blocks(const D& device, const Vector<const element_t<D, std::byte>>& bytes,
                 const Vector<element_t<D, std::uint64_t>>& hashes) {
  require_count("hash_blocks: hashes", hashes.extent(0), (bytes.extent(0) + hash_block - 1) / hash_block);
  hash_blocks_kernel(device, bytes, hashes);
}

}  // namespace K3SPEC_NAMESPACE
