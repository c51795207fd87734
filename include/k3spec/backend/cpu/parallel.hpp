#pragma once
/// \file
/// Loops over independent items on a Cpu's threads. Without OpenMP, and inside another such loop, they run on the
/// calling thread.
/// defines: parallel_for

#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <k3spec/core/device.hpp>
#include <k3spec/core/extents.hpp>

namespace k3spec {

namespace detail {
/// Whether the caller is one of several threads at work already.
#if defined(_OPENMP)
inline bool in_parallel() { return omp_in_parallel() != 0; }
#else
inline bool in_parallel() { return false; }
#endif
}  // namespace detail

/// Calls body(i) for i in [0, count), each exactly once, in no promised order. The bodies must not depend on one
/// another: then the thread count cannot change a result. An exception of a body is thrown again here.
template <class F>
void parallel_for(const Cpu& cpu, index_t count, F&& body) {
  if (cpu.threads <= 1 || count <= 1 || detail::in_parallel()) {
    for (index_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) num_threads(cpu.threads)
  for (index_t i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(k3spec_parallel_for)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace k3spec
