#pragma once
/// \file
/// The device: a process that runs kernels, one launch at a time, until the host ends.
/// defines: device_main, fail_here, require_device

#include <sys/types.h>

#include "control.hpp"

namespace cuda_host {

/// Runs in the forked child; never returns.
[[noreturn]] void device_main(pid_t host);

/// Tells the host of a fault at the running thread's place and ends the device.
[[noreturn]] void fail_here(cudaError_t error, const char* what, const char* file = nullptr, unsigned line = 0,
                            const char* other_file = nullptr, unsigned other_line = 0);

/// The same for a fault of a launch as a whole, at an address.
[[noreturn]] void fail_launch(cudaError_t error, const char* what, std::uint64_t address);

/// Ends a host program that calls a device function.
void require_device(const char* what);

}  // namespace cuda_host
