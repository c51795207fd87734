#pragma once
/// \file
/// The device process gives up all memory of the host: heap, stacks and everything mapped since the program began.
/// defines: Span, keep_mapped, give_up_host_memory

#include <cstdint>

namespace cuda_host {

struct Span {
  std::uint64_t begin, end;
};

/// This memory is the device process's own.
void keep_mapped(Span span);

/// Address space for the device process's own memory. The host reserves it before it forks, so that nothing of the
/// host's can ever have an address that means something in the device process.
extern Span own_memory;

/// A piece of it, after a guard page.
std::uint64_t map_own(std::uint64_t size);

/// In the device process, on a stack of its own.
void give_up_host_memory();

/// The calling thread's block of the executable's thread-local variables.
std::uint64_t executable_tls();

}  // namespace cuda_host
