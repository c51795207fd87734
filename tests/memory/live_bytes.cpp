// Replaces operator new by one that knows what is in use. In a file of its own: inlined into one side only, new and
// delete look mismatched to compilers.

#include "tests/memory/live_bytes.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> live{0}, peak{0};

void* counted(void* p) noexcept {
  if (p == nullptr) return p;
  const std::size_t now = live += malloc_usable_size(p);
  std::size_t most = peak;
  while (most < now && !peak.compare_exchange_weak(most, now)) {
  }
  return p;
}
void* allocate(std::size_t size, std::size_t align) noexcept {
  return counted(std::aligned_alloc(align, (std::max<std::size_t>(size, 1) + align - 1) / align * align));
}
void* or_throw(void* p) {
  if (p != nullptr) return p;
  throw std::bad_alloc();
}
void release(void* p) noexcept {
  if (p != nullptr) live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

std::size_t k3spec::test::live_bytes() { return live; }
std::size_t k3spec::test::peak_bytes() { return peak; }
void k3spec::test::forget_peak() { peak = live.load(); }

void* operator new(std::size_t size) { return or_throw(allocate(size, alignof(std::max_align_t))); }
void* operator new(std::size_t size, std::align_val_t align) {
  return or_throw(allocate(size, static_cast<std::size_t>(align)));
}
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(align));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
