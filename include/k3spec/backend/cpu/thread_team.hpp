#pragma once
/// \file
/// The threads that help one thread with its loops. They wait without taking a core from anybody: a helper looks for
/// the next loop for some microseconds, as a step is made of loops that follow one another closely, and then sleeps.
/// Nobody waits for a helper that has not come: on a busy machine, where it may take milliseconds until it runs, the
/// caller does the loop alone. A forked process has none of its parent's helpers, and starts its own.
/// defines: cpu::ThreadTeam

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include <pthread.h>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// A thread and the helpers that run its loops with it; those without work sleep.
class ThreadTeam {
 public:
  /// The calling thread's; its helpers start when they are needed, and end with it.
  static ThreadTeam& own() {
    thread_local ThreadTeam team;
    return team;
  }
  /// Whether the caller is in a loop of a team already.
  static bool working() { return at_work(); }

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Calls work(context) here and, at the same time, on as many of `helpers` other threads as come before it is done
  /// here. Returns when all calls have. work must not throw, and whoever calls it last finds nothing left to do.
  void run(int helpers, void (*work)(void*), void* context) {
    start(helpers);
    work_ = work, context_ = context;
    helpers_.store(helpers, std::memory_order_relaxed);
    state_.fetch_add(turn, std::memory_order_release);
    state_.notify_all();
    call();
    std::uint32_t s = state_.fetch_add(turn, std::memory_order_acq_rel) + turn;
    while (inside(s) != 0) s = changed(s);
  }

 private:
  /// Low half: helpers at work. High half: counts openings and closings, so odd while a loop is open to helpers.
  static constexpr std::uint32_t turn = std::uint32_t{1} << 16U;
  static constexpr std::uint32_t inside(std::uint32_t s) { return s & (turn - 1); }
  static constexpr std::uint32_t turn_of(std::uint32_t s) { return s >> 16U; }
  static constexpr bool open(std::uint32_t s) { return (turn_of(s) & 1U) != 0; }
  static constexpr int most_helpers = 4096;
  /// Nanoseconds: longer than the pause between two loops of a step, shorter than anybody notices.
  static constexpr std::int64_t patience = 20'000;

  static bool& at_work() {
    thread_local bool working = false;
    return working;
  }

  ThreadTeam() = default;
  ~ThreadTeam() {
    at_work() = true;  // what still loops while the thread ends (destructors do) loops alone
    if (threads_ == nullptr) return;
    stop_.store(true, std::memory_order_relaxed);
    state_.fetch_add(turn, std::memory_order_release);
    state_.notify_all();
    for (int i = 0; i < started_ && forks_ == forks(); ++i) ::pthread_join(threads_[i], nullptr);
    std::free(threads_);
  }

  /// Forks between the program's first process and this one, which has no threads but the one that forked.
  static int& forks() {
    static int count = 0;
    return count;
  }
  static void count_forks() {
    [[maybe_unused]] static const int failed = ::pthread_atfork(nullptr, nullptr, [] { ++forks(); });
  }

  /// Where the system gives no more threads, there are fewer helpers.
  void start(int helpers) {
    helpers = std::min(helpers, most_helpers);
    if (forks_ != forks()) started_ = 0, forks_ = forks();
    if (started_ >= helpers) return;
    count_forks();
    const auto bytes = static_cast<std::size_t>(helpers) * sizeof(::pthread_t);
    auto* more = static_cast<::pthread_t*>(std::realloc(threads_, bytes));
    if (more == nullptr) return;
    threads_ = more;
    const auto help = [](void* team) -> void* {
      static_cast<ThreadTeam*>(team)->help();
      return nullptr;
    };
    while (started_ < helpers && ::pthread_create(threads_ + started_, nullptr, help, this) == 0) ++started_;
  }

  void call() {
    at_work() = true;
    work_(context_);
    at_work() = false;
  }

  /// A helper's life.
  void help() {
    std::uint32_t seen = 0, s = state_.load(std::memory_order_acquire);
    for (;;) {
      for (; !open(s) || turn_of(s) == seen; s = changed(s)) {
        if (stop_.load(std::memory_order_relaxed)) return;
      }
      if (stop_.load(std::memory_order_relaxed)) return;
      if (static_cast<int>(inside(s)) >= helpers_.load(std::memory_order_relaxed)) {
        seen = turn_of(s);
        continue;
      }
      if (!state_.compare_exchange_weak(s, s + 1, std::memory_order_acquire)) continue;
      seen = turn_of(s);
      call();
      s = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if (!open(s) && inside(s) == 0) state_.notify_all();
    }
  }

  /// Waits until the state is another than s. \returns it
  std::uint32_t changed(std::uint32_t s) const {
    const std::int64_t end = now_ns() + patience;
    do {
      for (int i = 0; i < 16; ++i) {
        const std::uint32_t now = state_.load(std::memory_order_acquire);
        if (now != s) return now;
        relax();
      }
    } while (now_ns() < end);
    state_.wait(s, std::memory_order_acquire);
    return state_.load(std::memory_order_acquire);
  }

  /// By a clock that nobody sets. std::chrono would cost each unit a twentieth of what Eigen does.
  static std::int64_t now_ns() {
    std::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<std::uint32_t> state_{0};
  std::atomic<int> helpers_{0};
  std::atomic<bool> stop_{false};
  void (*work_)(void*) = nullptr;
  void* context_ = nullptr;
  ::pthread_t* threads_ = nullptr;
  int started_ = 0;
  int forks_ = forks();
};

}  // namespace K3SPEC_NAMESPACE::cpu
