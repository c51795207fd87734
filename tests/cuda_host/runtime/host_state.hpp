#pragma once
/// \file
/// What every call of the host side begins and ends with.
/// defines: Call, sticky_error, set_sticky_error

#include <mutex>

#include "cuda_runtime.h"

namespace cuda_host {

/// The error that the device ended with; all calls return it until cudaDeviceReset.
cudaError_t sticky_error();
void set_sticky_error(cudaError_t error);

/// cudaErrorNoDevice, an earlier fault of the device, or success.
cudaError_t device_state();

/// Held during a call: the host side is one lock. `return call(error)` notes the thread's last error.
class Call {
 public:
  Call();
  cudaError_t operator()(cudaError_t error) const;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace cuda_host

/// In a function that returns cudaError_t: takes the lock as `call`, returns if there is no device or it has failed.
#define CUDA_HOST_BEGIN_CALL  \
  const cuda_host::Call call; \
  if (cuda_host::device_state() != cudaSuccess) return call(cuda_host::device_state())

/// Returns from the caller with any error of `expression`.
#define CUDA_HOST_TRY(expression)                                                                                    \
  do {                                                                                                               \
    if (const cudaError_t error_of_expression = (expression); error_of_expression) return call(error_of_expression); \
  } while (false)
