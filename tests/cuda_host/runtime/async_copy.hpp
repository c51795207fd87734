#pragma once
/// \file
/// Copies into shared memory that arrive late (cuda_host/matrix.h).
/// defines: forget_copies, counts_copies

namespace cuda_host {

void forget_copies();       ///< at the beginning of each block
extern bool counts_copies;  ///< in one of a launch's runs

}  // namespace cuda_host
