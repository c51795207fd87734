#pragma once
/// \file
/// Shared memory of a block: poisoned before each, dynamic memory with a guard behind.
/// defines: prepare_shared, poison_shared, check_shared

#include <cstdint>

namespace cuda_host {

void find_shared();                                ///< once in a device process
void prepare_shared(std::uint64_t dynamic_bytes);  ///< once per launch
void poison_shared();                              ///< before each block
void check_shared();                               ///< after each block

}  // namespace cuda_host
