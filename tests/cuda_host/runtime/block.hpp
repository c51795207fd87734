#pragma once
/// \file
/// One block of a grid: its threads as fibres, barriers and warps.
///
/// Lazily: a fibre runs threads to their end one after another; only where one has to wait does the next need a fibre
/// of its own. Warp by warp, each as far as it gets; within the order given, every thread runs until it must wait.
/// defines: Order, prepare_threads, run_block

#include <cstdint>

#include "control.hpp"

namespace cuda_host {

enum class Order { ascending, descending, random };

/// Small, seeded, good enough to shuffle with.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    return state;
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
};

void make_fibres();                           ///< once in a device process
void prepare_threads(const Request& launch);  ///< once per launch
void run_block(const Request& launch, Order order, Random& random);

/// What a kernel finds where nothing was written: differs from run to run, so that using it shows.
extern unsigned char shared_poison;

}  // namespace cuda_host
