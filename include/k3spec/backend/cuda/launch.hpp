#pragma once
/// \file
/// How kernels are launched: a function call, so that ops need no <<<>>> and plain C++ compilers can read them.
/// defines: cuda::LaunchShape, cuda::launch, cuda::blocks_for, cuda::warp

#include <algorithm>
#include <cstddef>

#include <k3spec/backend/cuda/device.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// Threads of a warp.
inline constexpr int warp = 32;

/// How a kernel is launched.
struct LaunchShape {
  dim3 grid, block;
  std::size_t shared = 0;  ///< bytes of dynamic shared memory
};

/// Queues kernel(args...) on the stream. A shape without threads is an error: callers return early for empty tensors.
/// \throws CudaError
template <class... P, class... A>
void launch(const Cuda& cuda, const LaunchShape& shape, void (*kernel)(P...), const A&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = cuda.stream();
  check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "cudaLaunchKernelEx");
}

/// Blocks for `items`, each taking `per_block` and going on in strides of the grid: enough to fill the card, and no
/// more than a grid's second axis may have. Results do not depend on the number.
inline unsigned blocks_for(const Cuda& cuda, index_t items, index_t per_block) {
  const index_t wanted = (items + per_block - 1) / per_block;
  const index_t enough = std::min<index_t>(65535, index_t{32} * cuda.multiprocessors());
  return static_cast<unsigned>(std::clamp<index_t>(wanted, 1, enough));
}

}  // namespace K3SPEC_NAMESPACE::cuda
