#pragma once
/// \file
/// The sums of squares of ops/sum_of_squares.hpp, in the same bits: eight threads of a block of 4096 elements each take
/// one of its chains, a warp four blocks.
/// defines: sums_of_squares_kernel

#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/expr/order.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: the squares of each block of x, added up.
template <class S>
__global__ void __launch_bounds__(256, 2) sum_squares(const S* x, index_t n, double* sums) {
  constexpr index_t chains = expr::square_chains;
  const index_t blocks = expr::square_blocks(n), chain = threadIdx.x % chains;
  const index_t first = (index_t{blockIdx.x} * blockDim.x + threadIdx.x) / chains;
  // Threads of a warp stay together for the shuffles: those past the last block sum up nothing.
  const index_t stride = index_t{gridDim.x} * blockDim.x / chains, rounds = (blocks + stride - 1) / stride;
  for (index_t round = 0; round < rounds; ++round) {
    const index_t block = first + round * stride, begin = block * expr::square_block;
    const index_t end = block >= blocks ? begin : (n - begin < expr::square_block ? n : begin + expr::square_block);
    double sum = 0;
    for (index_t i = begin + chain; i < end; i += chains) {
      const auto value = static_cast<double>(x[i]);
      sum = sum + value * value;
    }
    double total = 0;
    for (int c = 0; c < static_cast<int>(chains); ++c) {
      total = total + __shfl_sync(~0U, sum, c, static_cast<int>(chains));
    }
    if (chain == 0 && block < blocks) sums[block] = total;
  }
}

}  // namespace cuda

/// The sums of squares of the blocks of x, see expr::square_blocks.
template <class S>
void sums_of_squares_kernel(const Cuda& cuda, const Vector<const Placed<S, Cuda>>& x,
                            const Vector<Placed<double, Cuda>>& sums) {
  const index_t n = x.extent(0), blocks = expr::square_blocks(n);
  cuda.require_device_memory(x, "sums_of_squares: x");
  cuda.require_device_memory(sums, "sums_of_squares: sums");
  if (n == 0) return;
  const unsigned grid = cuda::blocks_for(cuda, blocks * expr::square_chains, 256);
  cuda::launch(cuda, {dim3(grid), dim3(256)}, cuda::sum_squares<S>, bare(x.data()), n, bare(sums.data()));
}

}  // namespace K3SPEC_NAMESPACE
