#pragma once
/// \file
/// SIGINT, SIGTERM and SIGHUP as a wish to stop: a program finishes what it is at and leaves by itself. Another one,
/// half a second later or more, ends it at once; before that it is the same wish, told twice: `timeout` signals a
/// program and then its group, and of a terminal that is closed both the shell and the system tell.
///
/// SIGPIPE ends nothing: where nobody reads any more, writing fails.
/// defines: StopSignals

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string>

#include <unistd.h>

namespace k3spec::examples {

class StopSignals {
 public:
  /// Listens from now on, for as long as the program runs. Hang-ups that are ignored (nohup) stay so.
  StopSignals() {
    std::signal(SIGPIPE, SIG_IGN);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (signal == SIGHUP && action.sa_handler == SIG_IGN) continue;
      action = {};
      action.sa_handler = &receive;
      action.sa_flags = SA_RESTART;  // reading and writing know nothing of it
      ::sigaction(signal, &action, nullptr);
    }
  }

  /// The first signal that came; 0: none.
  int received() const { return static_cast<int>(first & 0xFFU); }

  /// What a program's exit status is that left because of a signal, as shells have it.
  static constexpr int status(int signal) { return 128 + signal; }
  static std::string name(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : signal == SIGHUP ? "SIGHUP" : "a signal";
  }

 private:
  /// The first signal, and above its 8 bits the milliseconds when it came.
  static inline std::atomic<std::uint64_t> first{0};
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // else no handler may touch it
  static constexpr std::uint64_t same_wish = 500;                  // milliseconds

  static void receive(int signal) {
    struct timespec t {};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    const auto now = static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1000000;
    std::uint64_t before = 0;
    if (first.compare_exchange_strong(before, now << 8U | static_cast<std::uint64_t>(signal))) return;
    if (now >= (before >> 8U) + same_wish) ::_exit(status(signal));
  }
};

}  // namespace k3spec::examples
