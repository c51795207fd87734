#include "tests/backend/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> count = 0;
}  // namespace

long allocations() { return count; }

void* operator new(std::size_t bytes) {
  ++count;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  ++count;
  const std::size_t unit = static_cast<std::size_t>(align);
  if (void* p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  ++count;
  const std::size_t unit = static_cast<std::size_t>(align);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
