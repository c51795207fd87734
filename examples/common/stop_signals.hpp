#pragma once
/// \file
/// SIGINT, SIGTERM and SIGHUP as a wish to stop: a program finishes what it is at and leaves by itself. A second one
/// ends it at once.
/// defines: StopSignals

#include <atomic>
#include <csignal>
#include <string>

#include <unistd.h>

namespace k3spec::examples {

class StopSignals {
 public:
  /// Listens from now on, for as long as the program runs. Hang-ups that are ignored (nohup) stay so.
  StopSignals() {
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
  int received() const { return first; }

  /// What a program's exit status is that left because of a signal, as shells have it.
  static constexpr int status(int signal) { return 128 + signal; }
  static std::string name(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : signal == SIGHUP ? "SIGHUP" : "a signal";
  }

 private:
  static inline std::atomic<int> first{0};
  static_assert(std::atomic<int>::is_always_lock_free);  // else no handler may touch it

  static void receive(int signal) {
    int none = 0;
    if (!first.compare_exchange_strong(none, signal)) ::_exit(status(signal));
  }
};

}  // namespace k3spec::examples
