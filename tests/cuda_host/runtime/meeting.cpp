#include <bit>
#include <cstring>

#include "block.hpp"
#include "block_state.hpp"
#include "device_process.hpp"

// Warp functions: the lanes of a mask meet.

namespace cuda_host {
namespace {

void finish_meeting(unsigned first, unsigned lanes) {
  if (threads[first].meeting == detail::Meeting::collective) {
    void* operands[warp_lanes];
    for (unsigned l = 0; l < warp_lanes; ++l) operands[l] = threads[first + l].operands;
    threads[first].work(operands);
  }
  unsigned voted = 0;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (threads[first + lane].value != 0) voted |= 1U << lane;
  }
  unsigned long long nothing = 0;
  std::memset(&nothing, shared_poison, sizeof nothing);
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    Thread& thread = threads[first + static_cast<unsigned>(std::countr_zero(rest))];
    if (thread.meeting == detail::Meeting::shuffle) {
      thread.result = (lanes >> thread.source & 1U) != 0 ? threads[first + thread.source].value : nothing;
    } else {
      thread.result = voted;
    }
    states[&thread - threads] = State::ready;
  }
  warps[first / warp_lanes].waiting &= ~lanes;
}

/// Ends the meeting over `mask` if nobody is missing. Lanes that exited are not waited for.
void finish_meeting_if_complete(unsigned first, unsigned mask) {
  const Warp& warp = warps[first / warp_lanes];
  const unsigned lanes = mask & warp.present & ~warp.exited;
  if ((lanes & ~warp.waiting) != 0) return;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    if (threads[first + static_cast<unsigned>(std::countr_zero(rest))].mask != mask) return;  // it waits for others
  }
  finish_meeting(first, lanes);
}

void check_meeting(const Thread& self, const Warp& warp, unsigned first, unsigned lane, const Source& here) {
  if ((self.mask >> lane & 1U) == 0)
    meeting_fault("a warp function whose mask leaves out the calling lane", here, nullptr);
  if ((self.mask & (warp.exited | ~warp.present)) != 0) {
    if (self.meeting == detail::Meeting::shuffle)
      meeting_fault("a shuffle whose mask names a lane that has exited or does not exist", here, nullptr);
    if (self.meeting == detail::Meeting::collective)
      meeting_fault("a matrix instruction in a warp of which a lane has exited or does not exist", here, nullptr);
  }
  const unsigned others = warp.waiting & self.mask;
  if (others == 0) return;
  const Thread& other = threads[first + static_cast<unsigned>(std::countr_zero(others))];  // one stands for all
  if (other.mask != self.mask || other.meeting != self.meeting || other.work != self.work)
    meeting_fault("lanes of one mask meet at different warp functions or with different masks", here, &other.where);
}

}  // namespace

void meeting_fault(const char* what, const Source& here, const Source* other) {
  fail_here(cudaErrorLaunchFailure, what, here.file, here.line, other ? other->file : nullptr, other ? other->line : 0);
}

void exit_warp(unsigned thread) {
  const unsigned lane = thread % warp_lanes, first = thread - lane;
  Warp& warp = warps[thread / warp_lanes];
  warp.exited |= 1U << lane;
  for (unsigned rest = warp.waiting; rest != 0; rest &= warp.waiting & (rest - 1)) {
    const Thread& other = threads[first + static_cast<unsigned>(std::countr_zero(rest))];
    if ((other.mask >> lane & 1U) == 0) continue;
    if (other.meeting == detail::Meeting::shuffle)
      meeting_fault("a lane exits that a shuffle waits for", other.where, nullptr);
    if (other.meeting == detail::Meeting::collective)
      meeting_fault("a lane exits that a matrix instruction waits for", other.where, nullptr);
    finish_meeting_if_complete(first, other.mask);
  }
}

namespace {

/// Of the running thread, whose part of the meeting is written down but for what every meeting has.
unsigned long long meet_here(detail::Meeting kind, unsigned mask, const Source& here) {
  const unsigned lane = current % warp_lanes, first = current - lane;
  Warp& warp = warps[current / warp_lanes];
  Thread& self = threads[current];
  self.mask = mask;
  self.meeting = kind;
  check_meeting(self, warp, first, lane, here);
  warp.waiting |= 1U << lane;
  states[current] = State::at_meeting;
  finish_meeting_if_complete(first, mask);
  wait(here);
  return self.result;
}

}  // namespace

namespace detail {

void meet_all(Collective work, void* operands, const char* file, unsigned int line) {
  require_device("a matrix instruction");
  threads[current].work = work;
  threads[current].operands = operands;
  meet_here(Meeting::collective, ~0U, {file, line});
}

unsigned long long meet(Meeting kind, unsigned int mask, unsigned long long value, unsigned int source,
                        const char* file, unsigned int line) {
  require_device("a warp function");
  threads[current].value = value;
  threads[current].source = source;
  threads[current].work = nullptr;
  return meet_here(kind, mask, {file, line});
}

void check_width(int width, const char* file, unsigned int line) {
  const auto w = static_cast<unsigned>(width);
  if (width <= 0 || w > warp_lanes || !std::has_single_bit(w))
    fail_here(cudaErrorLaunchFailure, "a shuffle's width is no power of two up to 32", file, line);
}

}  // namespace detail
}  // namespace cuda_host
