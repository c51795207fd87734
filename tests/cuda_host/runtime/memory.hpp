#pragma once
/// \file
/// The host's view of device memory. An allocation ends (rounded up to 256 bytes) at a guard page; what is left of its
/// pages holds canaries. Addresses are not used twice.
/// defines: allocate, release, find_allocation, host_view, Allocation

#include <cstdint>
#include <string>

#include "control.hpp"

namespace cuda_host {

inline constexpr std::uint64_t device_memory = std::uint64_t{16} << 30U;

/// The address of `bytes` new bytes, filled with fresh_memory; 0 if there is no room.
std::uint64_t allocate(std::uint64_t bytes);

bool is_allocation(std::uint64_t base);
void release(std::uint64_t base);
void release_all();

bool in_region(std::uint64_t address);

/// Is all of [address, address + bytes) in one live allocation?
bool is_live(std::uint64_t address, std::uint64_t bytes);

/// Where the host reads and writes the byte of device memory at `address`.
unsigned char* host_view(std::uint64_t address);

std::uint64_t free_memory();

/// Tells the device of allocations made and released since the last launch.
void publish_allocations();

/// "12 bytes after the end of the allocation of 400 bytes at 0x..."
std::string describe(std::uint64_t address);

bool is_pinned(std::uint64_t address);

}  // namespace cuda_host
