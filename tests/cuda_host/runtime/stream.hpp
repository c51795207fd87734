#pragma once
/// \file
/// Streams are queues: work is put in at the call and done only when somebody waits for it.
/// defines: Stream, enqueue, run_until, run_everything, find_stream, Work

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_host {

struct Stream;
using StreamPointer = std::shared_ptr<Stream>;

/// Work in a stream up to and with the one of this number.
struct Mark {
  StreamPointer stream;
  std::uint64_t number = 0;
};

/// Gives back the error of the device, if it fails.
using Work = std::function<cudaError_t()>;

struct Item {
  Work work;
  std::vector<Mark> after;
};

struct Stream {
  unsigned flags = 0;
  std::uint64_t put = 0, done = 0;  ///< numbers of the last item put in and done
  std::deque<Item> items;
  bool destroyed = false;
};

/// The stream of a handle; null if there is none such. The null handle is the legacy default stream, which waits for
/// all blocking streams and they for it.
StreamPointer find_stream(cudaStream_t handle);

/// Puts work in, after what its stream holds and `after`. Gives back its number.
Mark enqueue(const StreamPointer& stream, Work work, std::vector<Mark> after = {});

bool is_done(const Mark& mark);
/// Does the work up to the mark, and what it must wait for. Stops at the first fault, which stays. Counts as a wait of
/// the host where there is such work.
cudaError_t run_until(const Mark& mark);
void count_wait();
/// Does the next piece of what the mark waits for.
cudaError_t run_one(const Mark& mark);
/// All of it, a single wait.
cudaError_t run_everything();

/// After cudaDeviceReset: no streams, no events.
void forget_streams();
void forget_events();

}  // namespace cuda_host
