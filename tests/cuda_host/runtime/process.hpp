#pragma once
/// \file
/// The host's end of the device process.
/// defines: launch_on_device, stop_device, prepare_device

#include <string>

#include "control.hpp"

namespace cuda_host {

/// Maps what host and device share, once; forks the device process if none runs.
cudaError_t prepare_device();

/// Runs `control->launch` on the device and waits for it.
cudaError_t launch_on_device();

void stop_device();

/// The program ends: there is no device any more.
extern bool unloading;

/// Makes a sentence of a fault, keeps it for last_fault() and writes it to stderr. Gives back its error.
cudaError_t report(const Fault& fault);
cudaError_t report(cudaError_t error, const std::string& sentence);

}  // namespace cuda_host
