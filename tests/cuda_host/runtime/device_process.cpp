#include "device_process.hpp"

#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "block.hpp"
#include "fibre.hpp"
#include "grid.hpp"
#include "isolate.hpp"
#include "sanitizer.hpp"
#include "shared_memory.hpp"
#include "snapshot.hpp"

namespace cuda_host {

bool in_device = false;

namespace {

pid_t host_process = 0;
Fibre startup, main_fibre;
volatile bool in_kernel = false;
volatile int current_run = 0;
volatile long run_ends = 0;  // when the running launch has taken too long

constexpr std::uint64_t stack_bytes = std::uint64_t{1} << 20U;

long seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

[[noreturn]] void die(Fault& fault) {
  fault.in_kernel = in_kernel;
  fault.block = position.block;
  fault.thread = position.thread;
  fault.run = current_run;
  control->fault = fault;
  control->response.store(control->request.load());
  futex_wake(control->response);
  ::_exit(1);
}

cudaError_t error_of(int signal) {
  switch (signal) {
    case SIGILL:
      return cudaErrorMisalignedAddress;
    case SIGFPE:
      return cudaErrorIllegalInstruction;
    case SIGABRT:
      return cudaErrorAssert;
    default:
      return cudaErrorIllegalAddress;
  }
}

const char* words_of(int signal) {
  switch (signal) {
    // Sources with kernels are compiled with -fsanitize=alignment in trap mode.
    case SIGILL:
      return "misaligned access (a trap of -fsanitize=alignment)";
    case SIGFPE:
      return "integer division by zero";
    case SIGABRT:
      return "abort";
    default:
      return "illegal access";
  }
}

void on_signal(int signal, siginfo_t* info, void* context) {
  Fault fault{};
  fault.error = error_of(signal);
  fault.what = words_of(signal);
  fault.has_address = signal == SIGSEGV || signal == SIGBUS;
  if (fault.has_address) fault.address = address_of(info->si_addr);
#if defined(__x86_64__)
  const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  fault.instruction = static_cast<std::uint64_t>(registers[REG_RIP]);
  if (signal == SIGSEGV && info->si_code != SI_KERNEL)
    fault.access = (registers[REG_ERR] & 2) != 0 ? Access::write : Access::read;
  if (signal == SIGSEGV && info->si_code == SI_KERNEL) {  // the processor does not say where
    fault.error = cudaErrorMisalignedAddress;
    fault.what = "misaligned access to a vector, or an address that cannot be";
    fault.has_address = false;
  }
#else
  static_cast<void>(context);
#endif
  die(fault);
}

/// Every second: has the host ended, does the launch take too long?
void on_alarm(int) {
  if (::getppid() != host_process) ::_exit(0);
  if (run_ends == 0 || seconds_now() < run_ends) return;
  Fault fault{};
  fault.error = cudaErrorLaunchTimeout;
  fault.what = "the kernel does not end";
  die(fault);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(signal, &action, nullptr);
}

void handle_signals() {
  stack_t stack{};
  constexpr std::uint64_t size = 64 << 10U;
  stack.ss_sp = pointer_to(map_own(size));
  stack.ss_size = size;
  ::sigaltstack(&stack, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) handle(signal, on_signal);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  itimerval every{};
  every.it_interval.tv_sec = every.it_value.tv_sec = 1;
  ::setitimer(ITIMER_REAL, &every, nullptr);
}

void run_launch() {
  const Request& launch = control->launch;
  map_allocations();
  prepare_threads(launch);
  prepare_shared(launch.dynamic_shared_bytes);
  for (int run = 0; run < 3; ++run) {
    current_run = run;
    run_ends = seconds_now() + launch.limit_seconds;
    in_kernel = true;
    run_grid(launch, run);
    in_kernel = false;
    run_ends = 0;
    run == 0 ? keep_first_run() : compare_run();
  }
  commit_first_run();
}

[[noreturn]] void serve() {
  begin_fibre(main_fibre);
  give_up_host_memory();
  std::uint32_t seen = control->response.load();
  for (;;) {
    while (control->request.load(std::memory_order_acquire) == seen) {
      futex_wait(control->request, seen, 1000);
      if (::getppid() != host_process) ::_exit(0);
    }
    ++seen;
    run_launch();
    control->response.store(seen, std::memory_order_release);
    futex_wake(control->response);
  }
}

}  // namespace

void device_main(pid_t host) {
  host_process = host;
  in_device = true;
  keep_mapped({address_of(control), page_up(address_of(control) + sizeof(Control))});
  make_fibres();
  prepare_snapshots();
  find_shared();
  handle_signals();
  main_fibre.stack = map_own(stack_bytes);
  main_fibre.stack_size = stack_bytes;
  make_fibre(main_fibre, serve);
  switch_fibre(startup, main_fibre);
  ::_exit(2);
}

void fail_here(cudaError_t error, const char* what, const char* file, unsigned line, const char* other_file,
               unsigned other_line) {
  Fault fault{};
  fault.error = error;
  fault.what = what;
  fault.file = file;
  fault.line = line;
  fault.other_file = other_file;
  fault.other_line = other_line;
  die(fault);
}

void fail_launch(cudaError_t error, const char* what, std::uint64_t address) {
  Fault fault{};
  fault.error = error;
  fault.what = what;
  fault.address = address;
  fault.has_address = address != 0;
  die(fault);
}

void require_device(const char* what) {
  if (in_device) return;
  std::fprintf(stderr, "cuda_host: %s is called on the host\n", what);
  std::abort();
}

namespace detail {

void fault(cudaError_t error, const char* what, const char* file, unsigned int line, const volatile void* address) {
  require_device(what);
  Fault f{};
  f.error = error;
  f.what = what;
  f.file = file;
  f.line = line;
  f.address = address_of(address);
  f.has_address = address != nullptr;
  die(f);
}

}  // namespace detail
}  // namespace cuda_host

// AddressSanitizer calls this before it reports: the device has no memory left to report with.
extern "C" void __asan_on_error() {
  if (!cuda_host::in_device) return;
  cuda_host::Fault fault{};
  fault.error = cudaErrorIllegalAddress;
  fault.what = "AddressSanitizer: access out of bounds, to host memory or after its end";
  fault.address = cuda_host::address_of(__asan_get_report_address());
  fault.has_address = true;
  fault.access = __asan_get_report_access_type() != 0 ? cuda_host::Access::write : cuda_host::Access::read;
  cuda_host::die(fault);
}

// libc's version allocates, which the device cannot.
extern "C" void __assert_fail(const char* what, const char* file, unsigned int line, const char*) noexcept {
  if (cuda_host::in_device) cuda_host::fail_here(cudaErrorAssert, what, file, line);
  std::fprintf(stderr, "%s:%u: assertion failed: %s\n", file, line, what);
  std::abort();
}
