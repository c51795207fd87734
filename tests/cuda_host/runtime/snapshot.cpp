#include "snapshot.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "control.hpp"
#include "device_process.hpp"
#include "isolate.hpp"
#include "sanitizer.hpp"

namespace cuda_host {
namespace {

constexpr std::uint64_t room = std::uint64_t{64} << 30U;  // address space, no memory until used
constexpr std::uint64_t window = 4096;                    // entries of the page map read at once

struct Pages {
  std::uint64_t* address;  // ascending
  std::size_t count;
};

LiveAllocation mapped[max_allocations];
std::size_t mapped_count = 0;
std::uint64_t version = 0;

int page_map = -1;
std::uint64_t* entries;
Pages first, later;
unsigned char* copies;  // of the first run's pages
unsigned char* original;

void map_pages(const LiveAllocation& a) {
  const std::uint64_t begin = a.first_page(), size = a.end_page() - begin;
  void* p = ::mmap(pointer_to(begin), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                   region.file, static_cast<off_t>(begin - region.base));
  if (p == MAP_FAILED) fail_launch(cudaErrorMemoryAllocation, "the device's memory cannot be mapped", a.base);
  poison(begin, a.base);
  poison(a.base + a.size, begin + size);
}

void unmap_pages(const LiveAllocation& a) {
  const std::uint64_t begin = a.first_page(), size = a.end_page() - begin;
  ::mmap(pointer_to(begin), size, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  unpoison(begin, begin + size);
}

// ---- which pages were written

bool is_private_copy(std::uint64_t entry) {
  constexpr std::uint64_t present = 1ULL << 63U, swapped = 1ULL << 62U, of_file = 1ULL << 61U;
  return (entry & (present | swapped)) != 0 && (entry & of_file) == 0;
}

void read_entries(std::uint64_t first_page, std::uint64_t count) {
  const auto size = static_cast<ssize_t>(count * sizeof(std::uint64_t));
  if (page_map >= 0 && ::pread(page_map, entries, static_cast<std::size_t>(size),
                               static_cast<off_t>(first_page / page * sizeof(std::uint64_t))) == size)
    return;
  std::fill_n(entries, count, 1ULL << 63U);  // no page map: any page may have been written
}

void find_written(std::uint64_t begin, std::uint64_t end, Pages& pages) {
  for (; begin < end; begin += window * page) {
    const std::uint64_t count = std::min(window, (end - begin) / page);
    read_entries(begin, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (is_private_copy(entries[i])) pages.address[pages.count++] = begin + i * page;
    }
  }
}

/// Allocations a few pages from each other are looked at in one go; between them is nothing that could be written.
void find_written(Pages& pages) {
  pages.count = 0;
  for (std::size_t i = 0; i < mapped_count;) {
    const std::uint64_t begin = mapped[i].first_page();
    std::uint64_t end = mapped[i].end_page();
    for (++i; page_map >= 0 && i < mapped_count && mapped[i].first_page() - end <= 64 * page; ++i)
      end = mapped[i].end_page();
    find_written(begin, end, pages);
  }
}

/// Calls f(begin, pages) for every run of neighbours.
template <class F>
void for_each_run(const Pages& pages, F f) {
  for (std::size_t i = 0; i < pages.count;) {
    std::size_t n = 1;
    while (i + n < pages.count && pages.address[i + n] == pages.address[i] + n * page) ++n;
    f(i, n);
    i += n;
  }
}

void drop(const Pages& pages) {
  for_each_run(pages,
               [&](std::size_t i, std::size_t n) { ::madvise(pointer_to(pages.address[i]), n * page, MADV_DONTNEED); });
}

// ---- what was written

const LiveAllocation& allocation_at(std::uint64_t address) {
  const LiveAllocation* begin = mapped;
  const auto* after = std::upper_bound(begin, begin + mapped_count, address,
                                       [](std::uint64_t a, const LiveAllocation& m) { return a < m.first_page(); });
  return *(after - 1);
}

void check_canary(std::uint64_t begin, std::uint64_t end, const unsigned char* copy) {
  for (std::uint64_t a = begin; a < end; ++a) {
    if (copy[a % page] != canary(a)) fail_launch(cudaErrorIllegalAddress, "a write out of bounds", a);
  }
}

void check_canaries(std::uint64_t at, const unsigned char* copy) {
  const LiveAllocation& a = allocation_at(at);
  if (at < a.base) check_canary(at, std::min(a.base, at + page), copy);
  if (at + page == a.end_page()) check_canary(std::max(at, a.base + a.size), at + page, copy);
}

const unsigned char* read_original(std::uint64_t at) {
  if (::pread(region.file, original, page, static_cast<off_t>(at - region.base)) != static_cast<ssize_t>(page))
    fail_launch(cudaErrorUnknown, "the device's memory cannot be read", at);
  return original;
}

// memcmp and memcpy may be the sanitizer's, which refuse the poisoned rest of a page.
bool same_page(const unsigned char* a, const unsigned char* b) {
  const auto* p = reinterpret_cast<const std::uint64_t*>(a);
  const auto* q = reinterpret_cast<const std::uint64_t*>(b);
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < page / sizeof *p; ++i) difference |= p[i] ^ q[i];
  return difference == 0;
}

void copy_page(unsigned char* to, const unsigned char* from) {
#if defined(__x86_64__)
  std::uint64_t count = page;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
#else
  std::memcpy(to, from, page);
#endif
}

void compare_page(std::uint64_t at, const unsigned char* a, const unsigned char* b) {
  if (same_page(a, b)) return;
  std::uint64_t i = 0;
  while (a[i] == b[i]) ++i;
  fail_launch(cudaErrorLaunchFailure,
              "the launch's result depends on the order in which threads and blocks run (a missing barrier, a race, "
              "or uninitialised shared memory)",
              at + i);
}

}  // namespace

void prepare_snapshots() {
  page_map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  entries = reinterpret_cast<std::uint64_t*>(map_own(window * sizeof(std::uint64_t)));
  original = pointer_to(map_own(page));
  copies = pointer_to(map_own(room));
  first.address = reinterpret_cast<std::uint64_t*>(map_own(room / page * sizeof(std::uint64_t)));
  later.address = reinterpret_cast<std::uint64_t*>(map_own(room / page * sizeof(std::uint64_t)));
  keep_mapped({region.base, region.base + region.size});
}

void map_allocations() {
  if (version == control->allocation_version) return;
  version = control->allocation_version;
  const LiveAllocation* wanted = control->allocations;
  const std::size_t count = control->allocation_count;
  std::size_t i = 0, j = 0;  // addresses are not used twice: the base is the allocation
  while (i < mapped_count || j < count) {
    if (j == count || (i < mapped_count && mapped[i].base < wanted[j].base)) {
      unmap_pages(mapped[i++]);
    } else if (i == mapped_count || wanted[j].base < mapped[i].base) {
      map_pages(wanted[j++]);
    } else {
      ++i;
      ++j;
    }
  }
  std::copy_n(wanted, count, mapped);
  mapped_count = count;
}

void keep_first_run() {
  find_written(first);
  if (first.count > room / page) fail_launch(cudaErrorMemoryAllocation, "a launch writes too much", 0);
  for (std::size_t i = 0; i < first.count; ++i) {
    unsigned char* copy = copies + i * page;
    copy_page(copy, pointer_to(first.address[i]));
    check_canaries(first.address[i], copy);
  }
  drop(first);
}

void compare_run() {
  find_written(later);
  for (std::size_t i = 0, j = 0; i < first.count || j < later.count;) {
    const bool in_first = i < first.count && (j == later.count || first.address[i] <= later.address[j]);
    const bool in_later = j < later.count && (i == first.count || later.address[j] <= first.address[i]);
    const std::uint64_t at = in_first ? first.address[i] : later.address[j];
    compare_page(at, in_first ? copies + i * page : read_original(at), in_later ? pointer_to(at) : read_original(at));
    i += in_first ? 1 : 0;
    j += in_later ? 1 : 0;
  }
  drop(later);
}

void commit_first_run() {
  for_each_run(first, [](std::size_t i, std::size_t n) {
    const auto size = static_cast<ssize_t>(n * page);
    if (::pwrite(region.file, copies + i * page, n * page, static_cast<off_t>(first.address[i] - region.base)) != size)
      fail_launch(cudaErrorMemoryAllocation, "the device's memory cannot be written", first.address[i]);
  });
  constexpr std::uint64_t worth_giving_back = std::uint64_t{64} << 20U;
  if (first.count * page > worth_giving_back) ::madvise(copies, first.count * page, MADV_DONTNEED);
}

}  // namespace cuda_host
