#pragma once
/// \file
/// Copies from device memory to shared memory that go on while the thread computes. A thread's copies since the last
/// commit_copies are a group; groups arrive in their order. Another thread's copies are there when that thread has
/// waited and both have met at a barrier.
/// defines: cuda::copy_async, cuda::commit_copies, cuda::wait_for_copies

#include <cuda_runtime.h>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// 16 bytes: the first `bytes` are those at `from`, the others 0. Both addresses are multiples of 16, also where bytes
/// is 0 and nothing is read.
__device__ inline void copy_async(void* shared, const void* from, unsigned bytes = 16) {
#if defined(__CUDACC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "l"(__cvta_generic_to_global(from)),
                 "r"(bytes)
               : "memory");
#else
  cuda_host::cp_async_16(shared, from, bytes);
#endif
}

/// Ends a group of this thread's copies; one of none is a group, too.
__device__ inline void commit_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" : : : "memory");
#else
  cuda_host::cp_async_commit_group();
#endif
}

/// Returns when all of this thread's groups but the last `Left` have arrived.
template <int Left>
__device__ inline void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" : : "n"(Left) : "memory");
#else
  cuda_host::cp_async_wait_group(Left);
#endif
}

}  // namespace K3SPEC_NAMESPACE::cuda
