#include "shared_memory.hpp"

#include <sys/mman.h>

#include <cstring>

#include "block.hpp"
#include "control.hpp"
#include "cuda_host.h"
#include "cuda_host/matrix.h"
#include "device_process.hpp"
#include "isolate.hpp"
#include "sanitizer.hpp"

namespace cuda_host {
namespace {

constexpr std::size_t max_dynamic = 64;
void* (*dynamic_variables[max_dynamic])();
std::size_t dynamic_count = 0;

std::uint64_t dynamic_begin[max_dynamic];
std::uint64_t dynamic_bytes = 0;
std::uint64_t static_begin = 0;

// For kernels that ask where it is.
alignas(page) thread_local unsigned char unnamed[dynamic_shared_room];
const bool registered = register_dynamic_shared([]() -> void* { return static_cast<void*>(unnamed); });

}  // namespace

void* dynamic_shared() {
  require_device("dynamic shared memory");
  return unnamed;
}

bool register_dynamic_shared(void* (*address)()) {
  if (dynamic_count < max_dynamic) dynamic_variables[dynamic_count++] = address;
  return true;
}

void find_shared() {
  static_begin = executable_tls();
  for (std::size_t i = 0; i < dynamic_count; ++i) dynamic_begin[i] = address_of(dynamic_variables[i]());
}

void prepare_shared(std::uint64_t bytes) {
  dynamic_bytes = bytes;
  for (std::size_t i = 0; i < dynamic_count; ++i) {
    const std::uint64_t begin = dynamic_begin[i], end = begin + bytes, guard = page_up(end);
    unpoison(begin, guard);
    ::mprotect(pointer_to(begin), guard - begin, PROT_READ | PROT_WRITE);
    ::mprotect(pointer_to(guard), begin + dynamic_shared_room - guard, PROT_NONE);
    for (std::uint64_t a = end; a < guard; ++a) *pointer_to(a) = canary(a);
    poison(end, guard);
  }
}

void poison_shared() {
  for (std::size_t i = 0; i < control->shared_span_count; ++i) {
    const SharedSpan& span = control->shared_spans[i];
    std::memset(pointer_to(static_begin + span.offset), shared_poison, span.size);
  }
  for (std::size_t i = 0; i < dynamic_count; ++i)
    std::memset(pointer_to(dynamic_begin[i]), shared_poison, dynamic_bytes);
}

bool in_shared(std::uint64_t address, std::uint64_t bytes) {
  const auto holds = [&](std::uint64_t begin, std::uint64_t size) {
    return address >= begin && address + bytes <= begin + size;
  };
  for (std::size_t i = 0; i < control->shared_span_count; ++i) {
    if (holds(static_begin + control->shared_spans[i].offset, control->shared_spans[i].size)) return true;
  }
  for (std::size_t i = 0; i < dynamic_count; ++i) {
    if (holds(dynamic_begin[i], dynamic_bytes)) return true;
  }
  return false;
}

void check_shared() {
  for (std::size_t i = 0; i < dynamic_count; ++i) {
    const std::uint64_t end = dynamic_begin[i] + dynamic_bytes;
    for (std::uint64_t a = end; a < page_up(end); ++a) {
      if (*pointer_to(a) != canary(a))
        fail_launch(cudaErrorIllegalAddress, "a write behind the end of dynamic shared memory", a);
    }
  }
}

}  // namespace cuda_host
