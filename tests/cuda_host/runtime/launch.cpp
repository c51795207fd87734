#include <algorithm>
#include <cstring>
#include <map>

#include "cuda_host.h"
#include "host_state.hpp"
#include "memory.hpp"
#include "process.hpp"
#include "stream.hpp"

namespace cuda_host {
namespace {

constexpr std::size_t shared_without_asking = std::size_t{48} << 10U;

std::map<const void*, std::size_t>& dynamic_limits = *new std::map<const void*, std::size_t>;  // never destroyed
std::uint64_t launch_count = 0;
std::uint32_t limit_seconds = 120;

std::size_t dynamic_limit(const void* kernel) {
  const auto found = dynamic_limits.find(kernel);
  return found == dynamic_limits.end() ? shared_without_asking : found->second;
}

cudaError_t check_shape(const dim3& grid, const dim3& block) {
  const bool grid_fits =
      grid.x >= 1 && grid.x <= 2147483647U && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
  const bool block_fits = block.x >= 1 && block.x <= 1024 && block.y >= 1 && block.y <= 1024 && block.z >= 1 &&
                          block.z <= 64 && block.x * block.y * block.z <= 1024;
  return grid_fits && block_fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

/// A launch as it was asked for, with the bytes its arguments had then.
struct Asked {
  detail::Kernel kernel;
  detail::Invoke invoke;
  dim3 grid, block;
  std::size_t shared;
  std::vector<unsigned char> arguments;
};

cudaError_t run(const Asked& asked) {
  if (const cudaError_t error = prepare_device()) return error;
  publish_allocations();
  Request& request = control->launch;
  request.kernel = asked.kernel;
  request.invoke = asked.invoke;
  request.grid = asked.grid;
  request.block = asked.block;
  request.dynamic_shared_bytes = asked.shared;
  request.seed = 0x9e3779b97f4a7c15ULL + launch_count;
  request.limit_seconds = limit_seconds;
  std::copy(asked.arguments.begin(), asked.arguments.end(), request.arguments);
  const cudaError_t error = launch_on_device();
  if (error == cudaSuccess) ++launch_count;
  return error;
}

}  // namespace

std::uint64_t launches() { return launch_count; }
std::uint64_t copied_bytes() { return control == nullptr ? 0 : control->copied_bytes; }
std::uint64_t counted_tiles() { return control == nullptr ? 0 : control->tiles; }
void set_launch_limit(unsigned seconds) { limit_seconds = seconds; }

namespace detail {

void copy_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

cudaError_t launch(const cudaLaunchConfig_t* config, Kernel kernel, Invoke invoke, const unsigned char* arguments,
                   std::size_t bytes) {
  CUDA_HOST_BEGIN_CALL;
  if (config == nullptr) return call(cudaErrorInvalidValue);
  if (kernel == nullptr) return call(cudaErrorInvalidDeviceFunction);
  const StreamPointer stream = find_stream(config->stream);
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (config->numAttrs != 0) return call(cudaErrorNotSupported);
  CUDA_HOST_TRY(check_shape(config->gridDim, config->blockDim));
  if (config->dynamicSmemBytes > dynamic_limit(reinterpret_cast<const void*>(kernel)))
    return call(cudaErrorInvalidValue);
  Asked asked{
      kernel, invoke, config->gridDim, config->blockDim, config->dynamicSmemBytes, {arguments, arguments + bytes}};
  enqueue(stream, [asked = std::move(asked)] { return run(asked); });
  return cudaSuccess;
}

}  // namespace detail
}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  CUDA_HOST_BEGIN_CALL;
  if (kernel == nullptr) return call(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0) return call(cudaErrorInvalidValue);
  const auto bytes = static_cast<std::size_t>(value);
  if (bytes > max_dynamic_shared_bytes) return call(cudaErrorInvalidValue);
  dynamic_limits[kernel] = std::max(bytes, shared_without_asking);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  CUDA_HOST_BEGIN_CALL;
  if (attributes == nullptr) return call(cudaErrorInvalidValue);
  if (kernel == nullptr) return call(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_limit(kernel));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size,
                                                          std::size_t dynamic_shared_bytes) {
  CUDA_HOST_BEGIN_CALL;
  if (blocks == nullptr || block_size < 1 || block_size > 1024) return call(cudaErrorInvalidValue);
  if (kernel == nullptr) return call(cudaErrorInvalidDeviceFunction);
  constexpr std::size_t shared = std::size_t{228} << 10U, reserved = 1024;
  const auto by_memory = static_cast<int>(shared / (dynamic_shared_bytes + reserved));
  *blocks = std::min({32, 2048 / ((block_size + 31) / 32 * 32), by_memory});
  return cudaSuccess;
}
}
