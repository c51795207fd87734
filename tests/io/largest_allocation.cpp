// Replaces operator new. In a file of its own: inlined into one side only, new and delete look mismatched to compilers.

#include "tests/io/largest_allocation.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

std::size_t k3spec::test::largest_allocation = 0;

void* operator new(std::size_t size) {
  k3spec::test::largest_allocation = std::max(k3spec::test::largest_allocation, size);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
// Also what std::stable_sort asks for: with one of the two a sanitizer's, new and delete would not match.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  k3spec::test::largest_allocation = std::max(k3spec::test::largest_allocation, size);
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
