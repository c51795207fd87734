#include "isolate.hpp"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "control.hpp"
#include "sanitizer.hpp"

namespace cuda_host {
namespace {

constexpr std::size_t max_spans = 8192;
Span kept[max_spans];
std::size_t kept_count = 0;

struct Mapping {
  Span span;
  bool accessible, heap_or_stack;
};

bool is_heap_or_stack(const char* line, const char* end) {
  const auto ends_with = [&](const char* name) {
    const auto n = static_cast<std::ptrdiff_t>(std::strlen(name));
    return end - line > n && std::memcmp(end - n, name, static_cast<std::size_t>(n)) == 0;
  };
  return ends_with("[heap]") || ends_with("[stack]");
}

std::uint64_t read_hex(const char*& at) {
  std::uint64_t value = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') {
      value = value * 16 + static_cast<std::uint64_t>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      value = value * 16 + static_cast<std::uint64_t>(*at - 'a' + 10);
    } else {
      return value;
    }
  }
}

/// Calls f for every mapping of this process, as they were before the first call of f. Allocates nothing.
template <class F>
void for_each_mapping(char* buffer, std::size_t size, F f) {
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t length = 0;
  for (ssize_t n = 1; n > 0 && length + 1 < size; length += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
    n = ::read(file, buffer + length, size - 1 - length);
  ::close(file);
  buffer[length] = '\n';
  for (const char* at = buffer; at < buffer + length;) {
    const char* end =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(buffer + length + 1 - at)));
    Mapping mapping{};
    mapping.span.begin = read_hex(at);
    ++at;
    mapping.span.end = read_hex(at);
    mapping.accessible = at[1] == 'r' || at[2] == 'w';
    mapping.heap_or_stack = is_heap_or_stack(at, end);
    f(mapping);
    at = end + 1;
  }
}

constexpr std::size_t maps_size = std::size_t{4} << 20U;

/// What is mapped before the first constructor of the program runs belongs to the loader and the libraries: code, their
/// variables, thread-local variables of the main thread. Nothing the host program computes with lies there.
[[gnu::constructor(101)]] void keep_what_the_loader_mapped() {
  void* buffer = ::mmap(nullptr, maps_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for_each_mapping(static_cast<char*>(buffer), maps_size, [&](const Mapping& m) {
    if (!m.heap_or_stack && m.span.begin != address_of(buffer)) keep_mapped(m.span);
  });
  ::munmap(buffer, maps_size);
}

std::uint64_t thread_pointer() {
#if defined(__x86_64__)
  std::uint64_t value = 0;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
#else
  return reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
#endif
}

/// The thread-local variables of the thread that forked: of libraries loaded at the start, and what libc keeps beside.
Span tls_pages() {
  const std::uint64_t middle = thread_pointer();
  Span span{middle, middle + page};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        auto& s = *static_cast<Span*>(out);
        const auto at = address_of(info->dlpi_tls_data);
        constexpr std::uint64_t near = 64ULL << 20U;  // variables of libraries loaded later lie in the heap
        if (at != 0 && at < s.end && s.end - at < near) s.begin = std::min(s.begin, at);
        return 0;
      },
      &span);
  return {page_down(span.begin), page_up(span.end)};
}

void give_up(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  // The sanitizer's own memory cannot be told from the host's; poison stops the kernels' accesses, not the sanitizer's.
  if (has_asan()) {
    poison(begin, end);
  } else {
    ::munmap(pointer_to(begin), end - begin);
  }
}

/// The sanitizer's heap lies at this fixed place and is partly mapped before any constructor.
constexpr Span sanitizer_heap{0x600000000000, 0x640000000000};

void give_up_unless_kept(const Mapping& mapping) {
  Span rest = mapping.span;
  if (!mapping.accessible) return;
  if (has_asan() && rest.begin >= sanitizer_heap.begin && rest.end <= sanitizer_heap.end) {
    poison(rest.begin, rest.end);
    return;
  }
  for (std::size_t i = 0; i < kept_count && rest.begin < rest.end; ++i) {
    if (kept[i].end <= rest.begin || kept[i].begin >= rest.end) continue;
    give_up(rest.begin, kept[i].begin);
    rest.begin = std::max(rest.begin, kept[i].end);
  }
  give_up(rest.begin, rest.end);
}

}  // namespace

void keep_mapped(Span span) {
  if (kept_count < max_spans) kept[kept_count++] = span;
}

std::uint64_t map_own(std::uint64_t size) {
  static std::uint64_t next = own_memory.begin;
  const std::uint64_t begin = next + page;
  next = page_up(begin + size);
  if (next > own_memory.end || ::mprotect(pointer_to(begin), size, PROT_READ | PROT_WRITE) != 0) ::_exit(3);
  return begin;
}

void give_up_host_memory() {
  const auto buffer = map_own(maps_size);
  keep_mapped(own_memory);
  keep_mapped(tls_pages());
  std::sort(kept, kept + kept_count, [](const Span& a, const Span& b) { return a.begin < b.begin; });
  ::munmap(region.host_alias, region.size);
  for_each_mapping(reinterpret_cast<char*>(buffer), maps_size, [](const Mapping& m) { give_up_unless_kept(m); });
}

std::uint64_t executable_tls() {
  std::uint64_t at = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = address_of(info->dlpi_tls_data);
        return 1;  // the executable is the first
      },
      &at);
  return at;
}

}  // namespace cuda_host
