#pragma once
/// \file
/// Loops over independent items on a Cpu's threads. Inside another such loop, or in a parallel region of the caller's
/// own OpenMP, they run on the calling thread.
/// defines: parallel_for

#include <algorithm>
#include <atomic>
#include <exception>
#include <type_traits>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <k3spec/backend/cpu/thread_team.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/extents.hpp>

/// \namespace k3spec::cpu
/// How devices of the host do what the library asks of every device.

/// \dir include/k3spec/backend/cpu
/// The backend of the host's processors.

namespace K3SPEC_NAMESPACE {

namespace detail {

/// Whether the caller is one of several threads at work already.
inline bool in_parallel() {
#if defined(_OPENMP)
  if (omp_in_parallel() != 0) return true;
#endif
  return cpu::ThreadTeam::working();
}

/// A loop that several threads take indices from. One for all bodies: a body is compiled once, as a function.
struct SharedLoop {
  void (*body)(void*, index_t);
  void* context;
  index_t count;
  std::atomic<index_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure = nullptr;  // of whoever set failed

  void take() {
    for (index_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        body(context, i);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  }
};

inline void run_loop(const Cpu& cpu, index_t count, void (*body)(void*, index_t), void* context) {
  if (cpu.threads <= 1 || count <= 1 || in_parallel()) {
    for (index_t i = 0; i < count; ++i) body(context, i);
    return;
  }
  SharedLoop loop{body, context, count};
  const int helpers = static_cast<int>(std::min<index_t>(cpu.threads, count)) - 1;
  cpu::ThreadTeam::own().run(
      helpers, [](void* shared) { static_cast<SharedLoop*>(shared)->take(); }, &loop);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace detail

/// Calls body(i) for i in [0, count), each exactly once, in no promised order. The bodies must not depend on one
/// another: then the thread count cannot change a result. An exception of a body is thrown again here.
template <class F>
void parallel_for(const Cpu& cpu, index_t count, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_loop(
      cpu, count, [](void* f, index_t i) { (*static_cast<Body*>(f))(i); },
      const_cast<std::remove_const_t<Body>*>(&body));
}

}  // namespace K3SPEC_NAMESPACE
