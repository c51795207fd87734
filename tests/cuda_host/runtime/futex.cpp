#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "control.hpp"

namespace cuda_host {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, unsigned milliseconds) {
  for (int i = 0; i < 2000; ++i) {  // an answer mostly comes sooner than a sleep would take
    if (word.load(std::memory_order_acquire) != seen) return;
  }
  timespec time{};
  time.tv_sec = milliseconds / 1000;
  time.tv_nsec = static_cast<long>(milliseconds % 1000) * 1'000'000L;
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

}  // namespace cuda_host
