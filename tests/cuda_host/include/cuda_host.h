#pragma once
/// \file
/// What the stand-in offers beyond CUDA: its faults and counters, and where dynamic shared memory lies.

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_host {

/// The sentence about the last fault of the device (kernel, block, thread, address, why); empty if there was none.
/// cudaDeviceReset keeps it.
std::string last_fault();
void clear_last_fault();

/// Faults are written to stderr too, unless a test that plants them says otherwise.
void set_quiet(bool quiet);

/// How many devices cudaGetDeviceCount finds (1). With 0, calls return cudaErrorNoDevice.
void set_device_count(int count);

/// A launch that takes longer (each of its three runs by itself) is a fault. 120 seconds.
void set_launch_limit(unsigned seconds);

std::uint64_t launches();     ///< kernels that ran to their end
std::uint64_t products();     ///< of cuBLAS, one for each call that has something to do
std::uint64_t allocations();  ///< of device memory and of pinned host memory so far
/// How often the host waited so far: calls that found work to be done before they could return, and copies from or to
/// memory that is not pinned, for which a card's driver may wait.
std::uint64_t waits();
std::size_t live_allocations();
std::uint64_t copied_bytes();  ///< that kernels read by cp.async so far, zeros not counted
std::uint64_t counted_tiles();  ///< that kernels have said they load (cuda_host/device.h) so far

inline constexpr std::size_t max_dynamic_shared_bytes = std::size_t{227} << 10U;
inline constexpr std::size_t dynamic_shared_room = std::size_t{228} << 10U;

bool register_dynamic_shared(void* (*address)());

}  // namespace cuda_host

/// `extern __shared__ T name[];` declares a variable that must be defined somewhere. Once in a program, in the
/// namespace where the kernels declare it: CUDA_HOST_DYNAMIC_SHARED(T, name);
#define CUDA_HOST_DYNAMIC_SHARED(T, name)                                        \
  alignas(4096) thread_local T name[cuda_host::dynamic_shared_room / sizeof(T)]; \
  [[maybe_unused]] static const bool cuda_host_registered_##name =               \
      cuda_host::register_dynamic_shared(+[]() -> void* { return static_cast<void*>(name); })
