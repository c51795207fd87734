#pragma once
/// \file
/// AddressSanitizer's functions where the program is built with it. The runtime itself is not: it asks at run time.

#include <cstddef>
#include <cstdint>

extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
[[gnu::weak]] void* __asan_get_report_address();
[[gnu::weak]] int __asan_get_report_access_type();
[[gnu::weak]] const char* __asan_get_report_description();
}

namespace cuda_host {

inline bool has_asan() { return __asan_poison_memory_region != nullptr; }

inline void poison(std::uint64_t begin, std::uint64_t end) {
  if (has_asan() && begin < end) __asan_poison_memory_region(reinterpret_cast<void*>(begin), end - begin);
}
inline void unpoison(std::uint64_t begin, std::uint64_t end) {
  if (has_asan() && begin < end) __asan_unpoison_memory_region(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace cuda_host
