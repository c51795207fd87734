#pragma once
/// \file
/// Pages of 2 MiB for large memory: walks over it then wait less for addresses to be translated.
/// defines: huge_page, advise_huge_pages

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// Bytes of a huge page, where there are any.
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Asks for huge pages within [p, p + bytes), before it is first written to. A wish: nothing else hangs on it.
inline void advise_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes < huge_page) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace K3SPEC_NAMESPACE
