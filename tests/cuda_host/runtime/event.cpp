#include <algorithm>
#include <chrono>

#include "host_state.hpp"
#include "stream.hpp"

namespace cuda_host {
namespace {

using clock = std::chrono::steady_clock;

struct Event {
  unsigned flags = 0;
  Mark recorded;  // where it was recorded last
  clock::time_point time;
};
using EventPointer = std::shared_ptr<Event>;

std::vector<EventPointer>& events = *new std::vector<EventPointer>;  // never destroyed

EventPointer find_event(cudaEvent_t handle) {
  const auto found = std::find_if(events.begin(), events.end(),
                                  [&](const auto& e) { return reinterpret_cast<cudaEvent_t>(e.get()) == handle; });
  return found == events.end() ? nullptr : *found;
}

bool is_timed(const Event& event) { return (event.flags & cudaEventDisableTiming) == 0; }

}  // namespace

void forget_events() { events.clear(); }

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  CUDA_HOST_BEGIN_CALL;
  if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) return call(cudaErrorInvalidValue);
  events.push_back(std::make_shared<Event>());
  events.back()->flags = flags;
  *event = reinterpret_cast<cudaEvent_t>(events.back().get());
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const EventPointer event = find_event(handle);
  if (event == nullptr) return call(cudaErrorInvalidResourceHandle);
  std::erase(events, event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  CUDA_HOST_BEGIN_CALL;
  const EventPointer event = find_event(handle);
  const StreamPointer stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  event->recorded = enqueue(stream, [event] {
    event->time = clock::now();
    return cudaSuccess;
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags) {
  CUDA_HOST_BEGIN_CALL;
  const EventPointer event = find_event(handle);
  const StreamPointer stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return call(cudaErrorInvalidValue);
  enqueue(stream, [] { return cudaSuccess; }, {event->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const EventPointer event = find_event(handle);
  if (event == nullptr) return call(cudaErrorInvalidResourceHandle);
  return call(run_until(event->recorded));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CUDA_HOST_BEGIN_CALL;
  const EventPointer event = find_event(handle);
  if (event == nullptr) return call(cudaErrorInvalidResourceHandle);
  if (is_done(event->recorded)) return cudaSuccess;
  CUDA_HOST_TRY(run_one(event->recorded));
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin_handle, cudaEvent_t end_handle) {
  CUDA_HOST_BEGIN_CALL;
  if (milliseconds == nullptr) return call(cudaErrorInvalidValue);
  const EventPointer begin = find_event(begin_handle), end = find_event(end_handle);
  if (begin == nullptr || end == nullptr || !is_timed(*begin) || !is_timed(*end) || !begin->recorded.stream ||
      !end->recorded.stream)
    return call(cudaErrorInvalidResourceHandle);
  if (!is_done(begin->recorded) || !is_done(end->recorded)) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}
}
