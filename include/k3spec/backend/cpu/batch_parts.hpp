#pragma once
/// \file
/// How a device runs a batch whose sequences know nothing of one another.
/// defines: run_parts, run_each

#include <algorithm>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/parallel.hpp>

namespace K3SPEC_NAMESPACE {

/// Calls f(device of the part, part, parts) for each of 1 to `most` parts: a device that has no better way takes all as
/// one.
/// `work` says how many multiply-adds there are in f, of the loops or products that threads would be woken for.
template <Device D, class F>
void run_parts(const D& device, index_t /*most*/, index_t /*work*/, F&& f) {
  f(device, index_t{0}, index_t{1});
}

/// Each thread takes a part through all of f; one part alone has all threads. With little work one thread takes all: it
/// would be over before others had woken up.
template <class F>
void run_parts(const Cpu& device, index_t most, index_t work, F&& f) {
  const Cpu enough = cpu::for_work(device, work, cpu::forward_work);
  const index_t parts = std::min<index_t>(std::max(enough.threads, 1), most);
  parallel_for(enough, parts, [&](index_t part) { f(parts == 1 ? enough : Cpu{1}, part, parts); });
}

/// Calls f(device of the item, i) for each of `count` items, one after the other.
template <Device D, class F>
void run_each(const D& device, index_t count, F&& f) {
  for (index_t i = 0; i < count; ++i) f(device, i);
}

/// Each thread takes items through all of f; of fewer items than threads, each has all threads.
template <class F>
void run_each(const Cpu& device, index_t count, F&& f) {
  if (count < device.threads) {
    for (index_t i = 0; i < count; ++i) f(device, i);
  } else {
    parallel_for(device, count, [&](index_t i) { f(Cpu{1}, i); });
  }
}

}  // namespace K3SPEC_NAMESPACE
