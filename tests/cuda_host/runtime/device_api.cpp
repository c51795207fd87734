#include <algorithm>
#include <cstring>

#include "cuda_host.h"
#include "host_state.hpp"
#include "memory.hpp"
#include "process.hpp"
#include "stream.hpp"

namespace cuda_host {
namespace {

std::recursive_mutex& mutex = *new std::recursive_mutex;
cudaError_t sticky = cudaSuccess;
int device_count = 1;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

constexpr int multiprocessors = 8, compute_major = 9, compute_minor = 0;  // few, so that grids stay small

struct ErrorText {
  cudaError_t code;
  const char *name, *text;
};
constexpr ErrorText error_texts[] = {
#define CUDA_HOST_ERROR(name, code, text) {static_cast<cudaError_t>(code), #name, text},
#include "cuda_host/errors.def"
#undef CUDA_HOST_ERROR
};

const ErrorText* find_error(cudaError_t error) {
  const auto* found =
      std::find_if(std::begin(error_texts), std::end(error_texts), [&](const ErrorText& e) { return e.code == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

bool is_device(int device) { return device >= 0 && device < device_count; }

}  // namespace

cudaError_t sticky_error() { return sticky; }
void set_sticky_error(cudaError_t error) {
  if (sticky == cudaSuccess) sticky = error;
}

cudaError_t device_state() {
  if (unloading) return cudaErrorCudartUnloading;
  if (device_count == 0) return cudaErrorNoDevice;
  if (sticky != cudaSuccess) return sticky;
  return prepare_device();
}

Call::Call() : lock_(mutex) {}

cudaError_t Call::operator()(cudaError_t error) const {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void set_device_count(int count) { device_count = count; }

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = find_error(error);
  return found != nullptr ? found->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = find_error(error);
  return found != nullptr ? found->text : "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return sticky_error() != cudaSuccess ? sticky_error() : last_error; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call;
  if (count == nullptr) return call(cudaErrorInvalidValue);
  *count = device_count;
  return call(device_count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  CUDA_HOST_BEGIN_CALL;
  if (!is_device(device)) return call(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  CUDA_HOST_BEGIN_CALL;
  if (device == nullptr) return call(cudaErrorInvalidValue);
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  CUDA_HOST_BEGIN_CALL;
  if (value == nullptr) return call(cudaErrorInvalidValue);
  if (!is_device(device)) return call(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = 1024;
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = compute_major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = compute_minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(max_dynamic_shared_bytes);
      break;
    default:
      return call(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  CUDA_HOST_BEGIN_CALL;
  if (properties == nullptr) return call(cudaErrorInvalidValue);
  if (!is_device(device)) return call(cudaErrorInvalidDevice);
  cudaDeviceProp& p = *properties;
  p = {};
  std::strncpy(p.name, "CPU standing in for a GPU", sizeof p.name - 1);
  p.totalGlobalMem = device_memory;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = max_dynamic_shared_bytes;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.warpSize = 32;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = compute_major;
  p.minor = compute_minor;
  p.multiProcessorCount = multiprocessors;
  p.maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call;
  if (version == nullptr) return call(cudaErrorInvalidValue);
  *version = device_count == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call;
  if (version == nullptr) return call(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceReset() {
  const Call call;
  if (device_count == 0) return call(cudaErrorNoDevice);
  stop_device();
  forget_streams();
  forget_events();
  release_all();
  sticky = last_error = cudaSuccess;
  return cudaSuccess;
}
}
