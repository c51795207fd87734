#pragma once
/// \file
/// All blocks of a launch, one after another.
/// defines: run_grid

#include "control.hpp"

namespace cuda_host {

/// Runs 0, 1, 2 go through blocks and threads in ascending, descending and random order.
void run_grid(const Request& launch, int run);

}  // namespace cuda_host
