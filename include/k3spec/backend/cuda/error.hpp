#pragma once
/// \file
/// Errors of the CUDA runtime and of cuBLAS as exceptions that say where.
/// defines: CudaError, cuda::check

#include <source_location>
#include <string>
#include <string_view>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <k3spec/core/error.hpp>

namespace k3spec {

/// A call of the CUDA runtime or of cuBLAS that failed: file, line, the call, and the library's own name and sentence
/// for the failure. Kernels run later than their launch: a kernel's own failure is found by a later call.
class CudaError : public Error {
 public:
  using Error::Error;
};

namespace cuda {

namespace detail {
inline std::string place(std::string_view call, const std::source_location& at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": " + std::string(call);
}
inline std::string both(const char* name, const char* sentence) { return std::string(name) + " (" + sentence + ")"; }
}  // namespace detail

/// \param call  what was called, e.g. "cudaMalloc"
/// \throws CudaError unless the call succeeded
inline void check(cudaError_t status, std::string_view call,
                  const std::source_location& at = std::source_location::current()) {
  if (status == cudaSuccess) return;
  throw CudaError(detail::place(call, at), detail::both(cudaGetErrorName(status), cudaGetErrorString(status)),
                  "cudaSuccess");
}

/// \throws CudaError unless the call succeeded
inline void check(cublasStatus_t status, std::string_view call,
                  const std::source_location& at = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(detail::place(call, at), detail::both(cublasGetStatusName(status), cublasGetStatusString(status)),
                  "CUBLAS_STATUS_SUCCESS");
}

}  // namespace cuda
}  // namespace k3spec
