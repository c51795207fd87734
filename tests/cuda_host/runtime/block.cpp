#include "block.hpp"

#include <sys/mman.h>

#include <cstring>

#include "async_copy.hpp"
#include "block_state.hpp"
#include "device_process.hpp"
#include "isolate.hpp"

namespace cuda_host {

Position position;
unsigned char shared_poison = fresh_memory;

State states[max_threads];
Thread threads[max_threads];
Warp warps[max_threads / warp_lanes];
Block block;
unsigned current;

namespace {

constexpr std::uint64_t stack_bytes = std::uint64_t{256} << 10U;

Fibre fibres[max_threads];
Fibre* free_fibres[max_threads];
unsigned free_count;
Fibre scheduler;

uint3 indices[max_threads];

unsigned lane_order[warp_lanes], warp_order[max_threads / warp_lanes];
unsigned cursor;  // into lane_order: what comes next in the warp that runs
unsigned warp_first;
const Request* running;

void enter(unsigned thread) {
  current = thread;
  position.rank = thread;
  position.thread = indices[thread];
}

/// The next of the warp that can run, in this pass through it.
bool next_in_warp(unsigned& thread) {
  while (cursor < warp_lanes) {
    thread = warp_first + lane_order[cursor++];
    if (states[thread] == State::unstarted || states[thread] == State::ready) return true;
  }
  return false;
}

/// Makes the thread the running one; the fibre to switch to.
Fibre& start_or_resume(unsigned thread) {
  if (states[thread] == State::unstarted) threads[thread].fibre = free_fibres[--free_count];
  enter(thread);
  return *threads[thread].fibre;
}

// ---- barriers

void release_barrier() {
  using detail::Barrier;
  const unsigned sum = block.barrier_sum;
  switch (block.barrier) {
    case Barrier::plain:
      block.barrier_result = 0;
      break;
    case Barrier::count:
      block.barrier_result = static_cast<int>(sum);
      break;
    case Barrier::all:
      block.barrier_result = sum == block.arrived;
      break;
    case Barrier::any:
      block.barrier_result = sum != 0;
      break;
  }
  for (unsigned t = 0; t < block.count; ++t) {
    if (states[t] == State::at_barrier) states[t] = State::ready;
  }
  block.arrived = block.barrier_sum = 0;
}

// ---- threads

void exit_thread() {
  states[current] = State::exited;
  --block.alive;
  exit_warp(current);
  if (block.arrived != 0 && block.arrived == block.alive) release_barrier();
}

/// A fibre runs the current thread, then those of the warp that come next and have not begun; then it is free.
[[noreturn]] void fibre_main() {
  Fibre* self = threads[current].fibre;
  begin_fibre(*self);
  for (;;) {
    running->invoke(running->kernel, running->arguments);
    exit_thread();
    unsigned next = 0;
    const bool any = next_in_warp(next);
    if (any && states[next] == State::unstarted) {
      enter(next);
      threads[next].fibre = self;
      continue;
    }
    free_fibres[free_count++] = self;
    switch_fibre(*self, any ? start_or_resume(next) : scheduler);
  }
}

/// Passes through the warp until none of its threads can go on.
bool run_warp(unsigned w) {
  warp_first = w * warp_lanes;
  for (bool any = false;; any = true) {
    cursor = 0;
    unsigned next = 0;
    if (!next_in_warp(next)) return any;
    switch_fibre(scheduler, start_or_resume(next));
  }
}

template <std::size_t n>
void set_order(unsigned (&list)[n], unsigned count, Order order, Random& random) {
  for (unsigned i = 0; i < count; ++i) list[i] = order == Order::descending ? count - 1 - i : i;
  if (order != Order::random) return;
  for (unsigned i = count; i > 1; --i) {
    const auto j = static_cast<unsigned>(random.below(i));
    const unsigned kept = list[i - 1];
    list[i - 1] = list[j];
    list[j] = kept;
  }
}

[[noreturn]] void deadlock() {
  const Source* first = nullptr;
  const Source* other = nullptr;
  for (unsigned t = 0; t < block.count; ++t) {
    if (states[t] != State::at_barrier && states[t] != State::at_meeting) continue;
    if (first == nullptr) {
      first = &threads[t].where;
      enter(t);
    } else if (states[t] != states[current] || threads[t].where.line != first->line) {
      other = &threads[t].where;
    }
  }
  meeting_fault("deadlock: all threads of the block wait, and not for the same", *first, other);
}

void begin_block() {
  forget_copies();
  block.alive = block.count;
  block.arrived = block.barrier_sum = 0;
  std::memset(states, static_cast<int>(State::exited), sizeof states);  // lanes that do not exist
  std::memset(states, static_cast<int>(State::unstarted), block.count);
  for (unsigned w = 0; w * warp_lanes < block.count; ++w) {
    const unsigned lanes = block.count - w * warp_lanes;
    warps[w] = {lanes >= warp_lanes ? ~0U : (1U << lanes) - 1, 0, 0};
  }
}

}  // namespace

void make_fibres() {
  std::uint64_t stack = map_own(max_threads * (stack_bytes + page));
  for (Fibre& fibre : fibres) {
    ::mprotect(pointer_to(stack), page, PROT_NONE);
    fibre.stack = stack + page;
    stack += stack_bytes + page;
    // Tops at different places within a page: otherwise all stacks would share a few lines of the cache.
    fibre.stack_size = stack_bytes - free_count % 32 * 128;
    make_fibre(fibre, fibre_main);
    free_fibres[free_count++] = &fibre;
  }
}

void prepare_threads(const Request& launch) {
  running = &launch;
  position.block_size = launch.block;
  position.grid_size = launch.grid;
  block.count = launch.block.x * launch.block.y * launch.block.z;
  for (unsigned t = 0; t < block.count; ++t)
    indices[t] = {t % launch.block.x, t / launch.block.x % launch.block.y, t / launch.block.x / launch.block.y};
}

void run_block(const Request&, Order order, Random& random) {
  begin_block();
  const unsigned warp_count = (block.count + warp_lanes - 1) / warp_lanes;
  set_order(lane_order, warp_lanes, order, random);
  set_order(warp_order, warp_count, order, random);
  while (block.alive != 0) {
    bool any = false;
    for (unsigned i = 0; i < warp_count; ++i) any = run_warp(warp_order[i]) || any;
    if (!any) deadlock();
  }
}

/// Others run until the thread, whose state has been set, can go on and its turn has come.
void wait(Source where) {
  Thread& self = threads[current];
  self.where = where;
  unsigned next = 0;
  if (!next_in_warp(next)) {
    switch_fibre(*self.fibre, scheduler);
  } else if (next == current) {
    enter(next);
  } else {
    switch_fibre(*self.fibre, start_or_resume(next));
  }
}

namespace detail {

int barrier(Barrier kind, bool predicate, const char* file, unsigned int line) {
  require_device("__syncthreads");
  if (block.arrived == 0) {
    block.barrier = kind;
    block.barrier_place = {file, line};
  } else if (block.barrier != kind || block.barrier_place.line != line) {
    fail_here(cudaErrorLaunchFailure, "threads of a block wait at different barriers", file, line,
              block.barrier_place.file, block.barrier_place.line);
  }
  ++block.arrived;
  block.barrier_sum += predicate ? 1U : 0U;
  states[current] = State::at_barrier;
  if (block.arrived == block.alive) release_barrier();
  wait({file, line});
  return block.barrier_result;
}

}  // namespace detail
}  // namespace cuda_host
