#pragma once
/// \file
/// What a kernel is written with: qualifiers, its place in the grid, barriers of the block.
///
/// __shared__ is thread_local: like CUDA's word it makes a static variable where it stands alone and a declaration
/// after extern. Kernels run on one thread of the device process; the runtime finds these variables in the executable's
/// symbol table and poisons them before every block.

#include "../cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace cuda_host {

/// Where the running thread is. The scheduler writes it, kernels read it.
struct Position {
  uint3 thread, block;
  dim3 block_size, grid_size;
  unsigned int rank;  ///< of the thread in its block, x fastest
};
extern Position position;

/// A kernel says that its block loads a tile: counted once for the three runs. CUDA has no such thing.
void count_tile();

namespace detail {

enum class Barrier : unsigned char { plain, count, all, any };

/// Waits until all threads of the block that have not exited are here.
int barrier(Barrier kind, bool predicate, const char* file, unsigned int line);

/// Ends the device process: `error` is what the host will see from now on.
[[noreturn]] void fault(cudaError_t error, const char* what, const char* file, unsigned int line,
                        const volatile void* address = nullptr);

template <class T>
inline const T* aligned(const T* p, const char* file, unsigned int line) {
  if (reinterpret_cast<unsigned long long>(p) % alignof(T) != 0)
    fault(cudaErrorMisalignedAddress, "misaligned access", file, line, p);
  return p;
}

}  // namespace detail
}  // namespace cuda_host

static constexpr const uint3& threadIdx = cuda_host::position.thread;
static constexpr const uint3& blockIdx = cuda_host::position.block;
static constexpr const dim3& blockDim = cuda_host::position.block_size;
static constexpr const dim3& gridDim = cuda_host::position.grid_size;
static constexpr int warpSize = 32;

// Where a call stands in the source: an error names it.
#define CUDA_HOST_HERE const char *file = __builtin_FILE(), unsigned int line = __builtin_LINE()

inline void __syncthreads(CUDA_HOST_HERE) {
  cuda_host::detail::barrier(cuda_host::detail::Barrier::plain, false, file, line);
}
inline int __syncthreads_count(int predicate, CUDA_HOST_HERE) {
  return cuda_host::detail::barrier(cuda_host::detail::Barrier::count, predicate != 0, file, line);
}
inline int __syncthreads_and(int predicate, CUDA_HOST_HERE) {
  return cuda_host::detail::barrier(cuda_host::detail::Barrier::all, predicate != 0, file, line);
}
inline int __syncthreads_or(int predicate, CUDA_HOST_HERE) {
  return cuda_host::detail::barrier(cuda_host::detail::Barrier::any, predicate != 0, file, line);
}

[[noreturn]] inline void __trap(CUDA_HOST_HERE) {
  cuda_host::detail::fault(cudaErrorLaunchFailure, "__trap", file, line);
}

// One thread runs at a time: memory is always in order.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned int) {}
