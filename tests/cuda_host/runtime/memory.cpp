#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <map>
#include <sstream>

#include "cuda_host.h"
#include "host_state.hpp"
#include "process.hpp"

namespace cuda_host {
namespace {

constexpr std::uint64_t alignment = 256;

using Map = std::map<std::uint64_t, std::uint64_t>;  // base to bytes

// Never destroyed: what frees memory when the program ends finds them still.
Map& live = *new Map;
Map& released = *new Map;  // to name them in a message
Map& pinned = *new Map;
// Offset of the next guard page. Far before the first allocation is device memory too, so that faults there are known.
std::uint64_t next = std::uint64_t{1} << 30U;
std::uint64_t used = 0;
std::uint64_t count = 0, changes = 0;

std::uint64_t pages_of(std::uint64_t bytes) { return page_up(bytes); }

void fill(std::uint64_t base, std::uint64_t bytes) {
  const std::uint64_t begin = page_down(base), end = page_up(base + bytes);
  std::memset(host_view(base), fresh_memory, bytes);
  for (std::uint64_t a = begin; a < base; ++a) *host_view(a) = canary(a);
  for (std::uint64_t a = base + bytes; a < end; ++a) *host_view(a) = canary(a);
}

using Entry = Map::const_iterator;

/// The last entry that begins at or below the address; end() if there is none.
Entry at_or_below(const Map& map, std::uint64_t address) {
  const auto after = map.upper_bound(address);
  return after == map.begin() ? map.end() : std::prev(after);
}

bool contains(const Map& map, std::uint64_t address) {
  const auto entry = at_or_below(map, address);
  return entry != map.end() && address - entry->first < entry->second;
}

std::string allocation_words(const Entry& entry) {
  std::ostringstream text;
  text << "the allocation of " << entry->second << " bytes at 0x" << std::hex << entry->first;
  return text.str();
}

}  // namespace

std::uint64_t allocate(std::uint64_t bytes) {
  const std::uint64_t size = pages_of(bytes);
  if (bytes > device_memory || used + size > device_memory || live.size() == max_allocations) return 0;
  if (next + size + 2 * page > region.size) return 0;
  const std::uint64_t end = region.base + next + page + size;
  const std::uint64_t base = end - (bytes + alignment - 1) / alignment * alignment;
  next += page + size;
  used += size;
  ++count;
  ++changes;
  live[base] = bytes;
  fill(base, bytes);
  return base;
}

bool is_allocation(std::uint64_t base) { return live.contains(base); }

void release(std::uint64_t base) {
  const std::uint64_t bytes = live.at(base), size = pages_of(bytes);
  ::fallocate(region.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(page_down(base) - region.base), static_cast<off_t>(size));
  used -= size;
  ++changes;
  live.erase(base);
  if (released.size() > 4096) released.clear();
  released[base] = bytes;
}

void release_all() {
  while (!live.empty()) release(live.begin()->first);
  for (const auto& [base, bytes] : pinned) ::munmap(pointer_to(base), page_up(bytes));
  pinned.clear();
}

bool in_region(std::uint64_t address) { return address >= region.base && address - region.base < region.size; }

bool is_live(std::uint64_t address, std::uint64_t bytes) {
  const auto entry = at_or_below(live, address);
  return entry != live.end() && address - entry->first <= entry->second &&
         bytes <= entry->second - (address - entry->first);
}

unsigned char* host_view(std::uint64_t address) { return region.host_alias + (address - region.base); }

std::uint64_t free_memory() { return device_memory - used; }

void publish_allocations() {
  if (control->allocation_version == changes) return;
  std::size_t i = 0;
  for (const auto& [base, bytes] : live) control->allocations[i++] = {base, bytes};
  control->allocation_count = i;
  control->allocation_version = changes;
}

std::string describe(std::uint64_t address) {
  if (address < page) return "a null pointer";
  if (is_pinned(address)) return "host memory (cudaMallocHost)";
  if (!in_region(address)) return "not device memory";
  if (contains(live, address)) return "in " + allocation_words(at_or_below(live, address));
  if (contains(released, address)) return "in freed memory: " + allocation_words(at_or_below(released, address));
  std::ostringstream text;
  const auto below = at_or_below(live, address);
  const auto above = live.upper_bound(address);
  const bool after =
      below != live.end() && (above == live.end() || address - below->first - below->second < above->first - address);
  if (after) text << address - below->first - below->second << " bytes after the end of " << allocation_words(below);
  if (!after && above != live.end()) text << above->first - address << " bytes before " << allocation_words(above);
  return text.str();
}

bool is_pinned(std::uint64_t address) { return contains(pinned, address); }

std::uint64_t allocations() { return count; }
std::size_t live_allocations() { return live.size(); }

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  CUDA_HOST_BEGIN_CALL;
  if (pointer == nullptr) return call(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > device_memory) return call(cudaErrorMemoryAllocation);
  void* p = ::mmap(nullptr, page_up(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return call(cudaErrorMemoryAllocation);
  std::memset(p, fresh_memory, bytes);
  pinned[address_of(p)] = bytes;
  ++count;
  *pointer = p;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  if (flags != cudaHostAllocDefault) return cudaErrorNotSupported;
  return cudaMallocHost(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  CUDA_HOST_BEGIN_CALL;
  if (pointer == nullptr) return cudaSuccess;
  CUDA_HOST_TRY(cudaDeviceSynchronize());
  const auto entry = pinned.find(address_of(pointer));
  if (entry == pinned.end()) return call(cudaErrorInvalidValue);
  ::munmap(pointer, page_up(entry->second));
  pinned.erase(entry);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  CUDA_HOST_BEGIN_CALL;
  if (free == nullptr || total == nullptr) return call(cudaErrorInvalidValue);
  *free = free_memory();
  *total = device_memory;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  CUDA_HOST_BEGIN_CALL;
  if (attributes == nullptr) return call(cudaErrorInvalidValue);
  const std::uint64_t address = address_of(pointer);
  void* p = const_cast<void*>(pointer);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, p};
  if (contains(live, address)) *attributes = {cudaMemoryTypeDevice, 0, p, nullptr};
  if (is_pinned(address)) *attributes = {cudaMemoryTypeHost, 0, nullptr, p};
  return cudaSuccess;
}
}
