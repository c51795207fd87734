#pragma once
/// \file
/// Shared memory of a block: poisoned before each, dynamic memory with a guard behind.
/// defines: find_shared, prepare_shared, poison_shared, check_shared, in_shared

#include <cstdint>

namespace cuda_host {

void find_shared();                                ///< once in a device process
void prepare_shared(std::uint64_t dynamic_bytes);  ///< once per launch
void poison_shared();                              ///< before each block
void check_shared();                               ///< after each block

/// Is all of [address, address + bytes) shared memory of the block?
bool in_shared(std::uint64_t address, std::uint64_t bytes);

}  // namespace cuda_host
