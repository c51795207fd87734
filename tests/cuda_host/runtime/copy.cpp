#include <cstring>
#include <vector>

#include "host_state.hpp"
#include "memory.hpp"
#include "process.hpp"
#include "stream.hpp"

// Copies and fills. All are queued; the blocking ones then wait. Host memory that is not pinned is read at the call, as
// a card's driver stages it, pinned memory only when the copy runs; all is written only when the copy runs.

namespace cuda_host {
namespace {

/// `height` rows of `width` bytes, `pitch` bytes from one to the next.
struct Rows {
  std::uint64_t address;
  std::size_t pitch;
  bool on_device;
};

struct Size {
  std::size_t width, height;
  bool empty() const { return width == 0 || height == 0; }
};

std::size_t span(const Rows& rows, const Size& size) { return (size.height - 1) * rows.pitch + size.width; }

bool fits(const Rows& rows, const Size& size) { return !rows.on_device || is_live(rows.address, span(rows, size)); }

unsigned char* view(const Rows& rows) { return rows.on_device ? host_view(rows.address) : pointer_to(rows.address); }

/// Which side `kind` says is on the device, if that is so.
cudaError_t place_sides(Rows& to, Rows& from, cudaMemcpyKind kind) {
  to.on_device = in_region(to.address);
  from.on_device = in_region(from.address);
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return to.on_device == to_device && from.on_device == from_device ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t freed_meanwhile(const char* what, const Rows& rows) {
  return report(cudaErrorIllegalAddress, std::string(what) + " touches " + describe(rows.address));
}

cudaError_t copy_rows(const Rows& to, const Rows& from, const Size& size, const std::vector<unsigned char>& staged) {
  if (!fits(to, size)) return freed_meanwhile("a copy", to);
  if (!fits(from, size)) return freed_meanwhile("a copy", from);
  const unsigned char* source = staged.empty() ? view(from) : staged.data();
  for (std::size_t i = 0; i < size.height; ++i)
    std::memmove(view(to) + i * to.pitch, source + i * from.pitch, size.width);
  return cudaSuccess;
}

cudaError_t enqueue_copy(const StreamPointer& stream, Rows to, Rows from, Size size, cudaMemcpyKind kind, Mark& mark) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (size.width > to.pitch || size.width > from.pitch) return cudaErrorInvalidPitchValue;
  if (size.empty()) return cudaSuccess;
  if (to.address == 0 || from.address == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = place_sides(to, from, kind)) return error;
  if (!fits(to, size) || !fits(from, size)) return cudaErrorInvalidValue;
  std::vector<unsigned char> staged;
  if (!from.on_device && !is_pinned(from.address)) staged.assign(view(from), view(from) + span(from, size));
  mark = enqueue(stream, [=, staged = std::move(staged)] { return copy_rows(to, from, size, staged); });
  return cudaSuccess;
}

cudaError_t fill_rows(const Rows& to, const Size& size, int value) {
  if (!fits(to, size)) return freed_meanwhile("a fill", to);
  for (std::size_t i = 0; i < size.height; ++i) std::memset(view(to) + i * to.pitch, value, size.width);
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  CUDA_HOST_BEGIN_CALL;
  Mark mark;
  CUDA_HOST_TRY(enqueue_copy(find_stream(stream), {address_of(to), to_pitch, false},
                             {address_of(from), from_pitch, false}, {width, height}, kind, mark));
  const auto is_pageable = [](const void* p) { return !in_region(address_of(p)) && !is_pinned(address_of(p)); };
  if (mark.stream != nullptr && (is_pageable(to) || is_pageable(from))) count_wait();
  return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  CUDA_HOST_BEGIN_CALL;
  Mark mark;
  CUDA_HOST_TRY(enqueue_copy(find_stream(nullptr), {address_of(to), to_pitch, false},
                             {address_of(from), from_pitch, false}, {width, height}, kind, mark));
  // Within the device a copy does not block.
  const bool within = in_region(address_of(to)) && in_region(address_of(from));
  return within ? cudaSuccess : call(run_until(mark));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemset2DAsync(void* pointer, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream_handle) {
  CUDA_HOST_BEGIN_CALL;
  const StreamPointer stream = find_stream(stream_handle);
  const Rows to{address_of(pointer), pitch, true};
  const Size size{width, height};
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (size.empty()) return cudaSuccess;
  if (width > pitch || !in_region(to.address) || !fits(to, size)) return call(cudaErrorInvalidValue);
  enqueue(stream, [=] { return fill_rows(to, size, value); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(pointer, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  CUDA_HOST_BEGIN_CALL;
  if (pointer == nullptr) return call(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::uint64_t base = allocate(bytes);
  if (base == 0) return call(cudaErrorMemoryAllocation);
  *pointer = pointer_to(base);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  CUDA_HOST_BEGIN_CALL;
  CUDA_HOST_TRY(run_everything());  // others may still use it
  if (pointer == nullptr) return cudaSuccess;
  if (!is_allocation(address_of(pointer))) return call(cudaErrorInvalidValue);
  release(address_of(pointer));
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  CUDA_HOST_BEGIN_CALL;
  if (find_stream(stream) == nullptr) return call(cudaErrorInvalidResourceHandle);
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream_handle) {
  CUDA_HOST_BEGIN_CALL;
  const StreamPointer stream = find_stream(stream_handle);
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (pointer == nullptr) return cudaSuccess;
  const std::uint64_t base = address_of(pointer);
  if (!is_allocation(base)) return call(cudaErrorInvalidValue);
  enqueue(stream, [base] {
    if (!is_allocation(base))
      return report(cudaErrorIllegalAddress, "cudaFreeAsync of memory that was freed meanwhile");
    release(base);
    return cudaSuccess;
  });
  return cudaSuccess;
}
}
