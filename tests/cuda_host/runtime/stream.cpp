#include "stream.hpp"

#include <algorithm>

#include "cuda_host.h"
#include "host_state.hpp"

namespace cuda_host {
namespace {

// Never destroyed: calls when the program ends find them still.
StreamPointer& default_stream = *new StreamPointer(std::make_shared<Stream>());
std::vector<StreamPointer>& streams = *new std::vector<StreamPointer>;  // also destroyed ones whose work is not done

std::uint64_t wait_count = 0;

bool is_blocking(const Stream& stream) { return (stream.flags & cudaStreamNonBlocking) == 0; }

cudaStream_t handle_of(const StreamPointer& stream) { return reinterpret_cast<cudaStream_t>(stream.get()); }

void add_legacy_order(const StreamPointer& stream, std::vector<Mark>& after) {
  if (stream != default_stream) {
    if (is_blocking(*stream)) after.push_back({default_stream, default_stream->put});
    return;
  }
  for (const auto& other : streams) {
    if (is_blocking(*other)) after.push_back({other, other->put});
  }
}

void run_all_of(const Mark& mark) {
  while (!is_done(mark)) run_one(mark);
}

void forget_finished() {
  std::erase_if(streams, [](const StreamPointer& s) { return s->destroyed && s->items.empty(); });
}

}  // namespace

StreamPointer find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream;
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const auto& s) { return handle_of(s) == handle && !s->destroyed; });
  return found == streams.end() ? nullptr : *found;
}

Mark enqueue(const StreamPointer& stream, Work work, std::vector<Mark> after) {
  add_legacy_order(stream, after);
  std::erase_if(after, is_done);
  stream->items.push_back({std::move(work), std::move(after)});
  return {stream, ++stream->put};
}

bool is_done(const Mark& mark) { return mark.stream == nullptr || mark.stream->done >= mark.number; }

cudaError_t run_one(const Mark& mark) {
  if (is_done(mark)) return sticky_error();
  Stream& stream = *mark.stream;
  for (const Mark& first : stream.items.front().after) {
    if (!is_done(first)) return run_one(first);
  }
  const Item item = std::move(stream.items.front());
  stream.items.pop_front();
  ++stream.done;
  if (sticky_error() != cudaSuccess) return sticky_error();  // nothing runs any more
  const cudaError_t error = item.work();
  if (error != cudaSuccess) set_sticky_error(error);
  return error;
}

void count_wait() { ++wait_count; }
std::uint64_t waits() { return wait_count; }

cudaError_t run_until(const Mark& mark) {
  if (!is_done(mark)) count_wait();
  run_all_of(mark);
  return sticky_error();
}

cudaError_t run_everything() {
  const auto has_work = [](const StreamPointer& s) { return s->done < s->put; };
  if (has_work(default_stream) || std::any_of(streams.begin(), streams.end(), has_work)) count_wait();
  // The stream created last goes first: work that needs an event and does not wait for it comes too early.
  for (std::size_t i = streams.size(); i > 0; --i) run_all_of({streams[i - 1], streams[i - 1]->put});
  run_all_of({default_stream, default_stream->put});
  forget_finished();
  return sticky_error();
}

void forget_streams() {
  streams.clear();
  default_stream = std::make_shared<Stream>();
}

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  CUDA_HOST_BEGIN_CALL;
  if (stream == nullptr || flags > cudaStreamNonBlocking) return call(cudaErrorInvalidValue);
  streams.push_back(std::make_shared<Stream>());
  streams.back()->flags = flags;
  *stream = handle_of(streams.back());
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const StreamPointer stream = handle == nullptr || handle == cudaStreamLegacy ? nullptr : find_stream(handle);
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  stream->destroyed = true;  // its work stays to be done
  forget_finished();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const StreamPointer stream = find_stream(handle);
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (stream != default_stream) return call(run_until({stream, stream->put}));
  // Waiting for the legacy stream is waiting for all that it would wait for.
  return call(run_until(enqueue(stream, [] { return cudaSuccess; })));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const StreamPointer stream = find_stream(handle);
  if (stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  const Mark mark{stream, stream->put};
  if (is_done(mark)) return cudaSuccess;
  CUDA_HOST_TRY(run_one(mark));  // asked often enough, it gets done
  return cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  CUDA_HOST_BEGIN_CALL;
  return call(run_everything());
}
}
