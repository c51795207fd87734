#pragma once
/// \file
/// Errors of the CUDA runtime and of cuBLAS as exceptions that say where.
/// defines: CudaError, cuda::check

#include <string>
#include <string_view>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

/// A call of the CUDA runtime or of cuBLAS that failed: file, line, the call, and the library's own name and sentence
/// for the failure. Kernels run later than their launch: a kernel's own failure is found by a later call.
class CudaError : public Error {
 public:
  using Error::Error;
};

namespace cuda {

namespace detail {
inline std::string place(std::string_view call, const char* file, int line) {
  return std::string(file) + ":" + std::to_string(line) + ": " + std::string(call);
}
inline std::string both(const char* name, const char* sentence) { return std::string(name) + " (" + sentence + ")"; }
}  // namespace detail

/// Refuses what a call of CUDA or cuBLAS returned.
/// \param call  what was called, e.g. "cudaMalloc"; the place is the caller's (clang++ 14 has no std::source_location)
/// \throws CudaError unless the call succeeded
inline void check(cudaError_t status, std::string_view call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  throw CudaError(detail::place(call, file, line), detail::both(cudaGetErrorName(status), cudaGetErrorString(status)),
                  "cudaSuccess");
}

/// Refuses what a call of CUDA or cuBLAS returned.
/// \throws CudaError unless the call succeeded
inline void check(cublasStatus_t status, std::string_view call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(detail::place(call, file, line),
                  detail::both(cublasGetStatusName(status), cublasGetStatusString(status)), "CUBLAS_STATUS_SUCCESS");
}

}  // namespace cuda
}  // namespace K3SPEC_NAMESPACE
