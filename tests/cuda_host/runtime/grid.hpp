#pragma once
/// \file
/// All blocks of a launch, one after another.
/// defines: run_grid, counts

#include "control.hpp"

namespace cuda_host {

/// Runs 0, 1, 2 go through blocks and threads in ascending, descending and random order.
void run_grid(const Request& launch, int run);

extern bool counts;  ///< in one of a launch's runs, where what kernels do is counted (cuda_host.h)

}  // namespace cuda_host
