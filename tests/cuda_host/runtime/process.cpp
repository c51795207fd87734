#include "process.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "device_process.hpp"
#include "elf_symbols.hpp"
#include "host_state.hpp"
#include "isolate.hpp"

namespace cuda_host {

Control* control = nullptr;
Region region{};
Span own_memory{};
bool unloading = false;

namespace {

pid_t device = 0;       // 0: none runs
pid_t device_host = 0;  // the process that forked it; a fork of that process has no device

bool list_shared_memory() {
  if (function_name(reinterpret_cast<std::uint64_t>(&prepare_device)).empty()) {
    report(cudaErrorInitializationError, "the program is stripped: its symbol table tells where shared memory lies");
    return false;
  }
  const auto found = shared_spans();
  if (found.size() > max_shared_spans) return false;
  control->shared_span_count = found.size();
  std::copy(found.begin(), found.end(), control->shared_spans);
  return true;
}

bool map_shared() {
  void* p = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  control = static_cast<Control*>(p);
  region.size = std::uint64_t{256} << 30U;
  region.file = ::memfd_create("cuda_host", MFD_CLOEXEC);
  if (region.file < 0 || ::ftruncate(region.file, static_cast<off_t>(region.size)) != 0) return false;
  void* base = ::mmap(nullptr, region.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* alias = ::mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, region.file, 0);
  constexpr std::uint64_t own = std::uint64_t{72} << 30U;
  void* reserved = ::mmap(nullptr, own, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || alias == MAP_FAILED || reserved == MAP_FAILED) return false;
  own_memory = {address_of(reserved), address_of(reserved) + own};
  region.base = address_of(base);
  region.host_alias = static_cast<unsigned char*>(alias);
  return list_shared_memory();
}

bool has_ended(int& status) { return ::waitpid(device, &status, WNOHANG) == device; }

cudaError_t device_ended(int status) {
  device = 0;
  if (control->fault.error != cudaSuccess) return report(control->fault);
  return report(cudaErrorUnknown, "the device process ended (wait status " + std::to_string(status) + ")");
}

}  // namespace

cudaError_t prepare_device() {
  if (device_host != 0 && device_host != ::getpid()) return cudaErrorInitializationError;
  static bool mapped = map_shared();
  if (!mapped) return cudaErrorInitializationError;
  if (device != 0) return cudaSuccess;
  device_host = ::getpid();
  control->fault = {};
  control->response.store(control->request.load());
  device = ::fork();
  if (device == 0) device_main(device_host);
  return device > 0 ? cudaSuccess : cudaErrorInitializationError;
}

cudaError_t launch_on_device() {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::seconds(3 * std::uint64_t{control->launch.limit_seconds} + 30);
  const std::uint32_t before = control->response.load();
  const std::uint32_t wanted = control->request.fetch_add(1) + 1;
  futex_wake(control->request);
  int status = 0;
  while (control->response.load(std::memory_order_acquire) != wanted) {
    futex_wait(control->response, before, 100);
    if (control->response.load() == wanted) break;
    if (has_ended(status)) return device_ended(status);
    if (clock::now() > deadline) {
      stop_device();
      return report(cudaErrorLaunchTimeout, "the device process does not answer");
    }
  }
  if (control->fault.error == cudaSuccess) return cudaSuccess;
  ::waitpid(device, &status, 0);
  return device_ended(status);
}

void stop_device() {
  if (device <= 0 || device_host != ::getpid()) return;
  ::kill(device, SIGKILL);
  ::waitpid(device, nullptr, 0);
  device = 0;
}

namespace {
/// The device ends with the program.
struct AtExit {
  ~AtExit() {
    stop_device();
    unloading = true;
  }
} at_exit;
}  // namespace

}  // namespace cuda_host
