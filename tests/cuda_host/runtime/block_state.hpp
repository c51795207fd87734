#pragma once
/// \file
/// The threads of the running block, as the scheduler (block.cpp) and the warps' meetings (meeting.cpp) see them.
/// defines: State, Source, Thread, Warp, Block, wait, exit_warp, meeting_fault

#include <cstdint>

#include "control.hpp"
#include "cuda_host/matrix.h"
#include "fibre.hpp"

namespace cuda_host {

inline constexpr unsigned max_threads = 1024, warp_lanes = 32;

enum class State : unsigned char { unstarted, ready, at_barrier, at_meeting, exited };

struct Source {
  const char* file;
  unsigned line;
};

struct Thread {
  Fibre* fibre;
  Source where;  // it waits
  // Of a meeting:
  unsigned long long value, result;
  unsigned mask, source;
  detail::Meeting meeting;
  detail::Collective work;  // and its operands
  void* operands;
};

struct Warp {
  unsigned present, exited, waiting;  // bits of lanes; waiting: at a meeting
};

struct Block {
  unsigned count, alive, arrived, barrier_sum;
  detail::Barrier barrier;
  Source barrier_place;
  int barrier_result;
};

extern State states[max_threads];
extern Thread threads[max_threads];
extern Warp warps[max_threads / warp_lanes];
extern Block block;
extern unsigned current;  ///< the thread that runs

/// Others run until the thread, whose state has been set, can go on and its turn has come.
void wait(Source where);

/// The thread, which exits, is missing from the meetings of its warp.
void exit_warp(unsigned thread);

[[noreturn]] void meeting_fault(const char* what, const Source& here, const Source* other);

}  // namespace cuda_host
