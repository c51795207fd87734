#pragma once
/// \file
/// What host and device process share: one request at a time, its answer, and the list of live allocations.
/// defines: Control, Request, Fault, LiveAllocation, SharedSpan

#include <atomic>
#include <cstdint>

#include "cuda_runtime.h"

namespace cuda_host {

struct LiveAllocation {
  std::uint64_t base, size;
  std::uint64_t first_page() const;
  std::uint64_t end_page() const;  ///< the guard page after the last one
};

/// `__shared__` variables beside each other: where they lie in the executable's block of thread-local variables.
struct SharedSpan {
  std::uint64_t offset, size;
};

struct Request {
  detail::Kernel kernel;
  detail::Invoke invoke;
  dim3 grid, block;
  std::uint64_t dynamic_shared_bytes;
  std::uint64_t seed;
  std::uint32_t limit_seconds;
  alignas(64) unsigned char arguments[detail::max_argument_bytes];
};

enum class Access : unsigned char { unknown, read, write };

/// Pointers to text point into the executable, which both processes have at the same place.
struct Fault {
  cudaError_t error;
  const char* what;
  const char *file, *other_file;
  unsigned int line, other_line;
  std::uint64_t address, instruction;
  bool has_address, in_kernel;
  Access access;
  uint3 block, thread;
  int run;  ///< which of a launch's three
};

inline constexpr std::size_t max_allocations = std::size_t{1} << 16U, max_shared_spans = 1024;

struct Control {
  std::atomic<std::uint32_t> request, response;  ///< counters; a futex each
  Fault fault;
  Request launch;
  std::uint64_t copied_bytes, tiles;
  std::uint64_t allocation_version;
  std::size_t allocation_count;
  LiveAllocation allocations[max_allocations];  ///< ascending
  std::size_t shared_span_count;
  SharedSpan shared_spans[max_shared_spans];
};

/// The memory of the device, at one address in both processes.
struct Region {
  std::uint64_t base;
  std::uint64_t size;
  int file;                   ///< memfd behind it
  unsigned char* host_alias;  ///< the host's own view of it
};

inline constexpr std::uint64_t page = 4096;
constexpr std::uint64_t page_down(std::uint64_t a) { return a & ~(page - 1); }
constexpr std::uint64_t page_up(std::uint64_t a) { return page_down(a + page - 1); }

inline std::uint64_t LiveAllocation::first_page() const { return page_down(base); }
inline std::uint64_t LiveAllocation::end_page() const { return page_up(base + size); }

/// Fills what is left of an allocation's pages; as bf16 and float it is NaN.
constexpr unsigned char canary(std::uint64_t address) { return address % 2 == 0 ? 0xa5 : 0xff; }
inline constexpr unsigned char fresh_memory = 0xff;

extern Control* control;  // mapped before the device process is forked
extern Region region;
extern bool in_device;

/// Sleeps while `word` is `seen`, at most about that long.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, unsigned milliseconds);
void futex_wake(std::atomic<std::uint32_t>& word);

inline std::uint64_t address_of(const volatile void* p) { return reinterpret_cast<std::uint64_t>(p); }
inline unsigned char* pointer_to(std::uint64_t a) { return reinterpret_cast<unsigned char*>(a); }

}  // namespace cuda_host
