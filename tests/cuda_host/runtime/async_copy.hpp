#pragma once
/// \file
/// Copies into shared memory that arrive late (cuda_host/matrix.h).
/// defines: forget_copies

namespace cuda_host {

void forget_copies();  ///< at the beginning of each block

}  // namespace cuda_host
