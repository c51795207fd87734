// Replaces operator new. In a file of its own: inlined into one side only, new and delete look mismatched to compilers.

#include "tests/train/allocations.hpp"

#include <cstdlib>
#include <new>

std::atomic<long> k3spec::test::allocations{0};

namespace {
void* counted(void* p) {
  ++k3spec::test::allocations;
  if (p != nullptr) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(std::size_t size, std::align_val_t align) {
  const auto a = static_cast<std::size_t>(align);
  return counted(std::aligned_alloc(a, (size + a - 1) / a * a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
