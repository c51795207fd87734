#include <cstring>

#include "async_copy.hpp"
#include "block.hpp"
#include "block_state.hpp"
#include "cuda_host/matrix.h"
#include "device_process.hpp"
#include "grid.hpp"
#include "shared_memory.hpp"

namespace cuda_host {
namespace {

constexpr unsigned most = 256;  // copies of a thread in flight

struct Copy {
  unsigned char* to;
  const unsigned char* from;
  unsigned bytes, group;
  unsigned char seen[16];  // the source when the copy was asked for
};

struct Copies {
  unsigned count, groups;  // groups: committed so far
  Copy copy[most];
};

Copies copies[max_threads];

/// Not memcpy, which is the sanitizer's in a program that has one: shared memory beside the operand may be poisoned.
void move_bytes(unsigned char* to, const unsigned char* from, unsigned n) {
  for (unsigned i = 0; i < n; ++i) to[i] = from[i];
}

void arrive(const Copy& copy, const char* file, unsigned line) {
  unsigned char now[16] = {};
  move_bytes(now, copy.from, copy.bytes);
  if (std::memcmp(now, copy.seen, sizeof now) != 0)
    detail::fault(cudaErrorLaunchFailure, "cp.async: the source changed while the copy was in flight", file, line,
                  copy.from);
  move_bytes(copy.to, now, sizeof now);
}

void check(const void* to, const void* from, unsigned bytes, const char* file, unsigned line) {
  if (address_of(to) % 16 != 0)
    detail::fault(cudaErrorMisalignedAddress, "cp.async: a destination not at a multiple of 16 bytes", file, line, to);
  if (address_of(from) % 16 != 0)
    detail::fault(cudaErrorMisalignedAddress, "cp.async: a source not at a multiple of 16 bytes", file, line, from);
  if (bytes > 16) detail::fault(cudaErrorLaunchFailure, "cp.async: more than 16 bytes", file, line);
  if (!in_shared(address_of(to), 16))
    detail::fault(cudaErrorInvalidAddressSpace, "cp.async: a destination outside shared memory", file, line, to);
}

}  // namespace

void forget_copies() {
  for (unsigned t = 0; t < block.count; ++t) copies[t].count = copies[t].groups = 0;
}

void cp_async_16(void* to, const void* from, unsigned int bytes, const char* file, unsigned int line) {
  require_device("cp.async");
  check(to, from, bytes, file, line);
  Copies& own = copies[current];
  if (own.count == most) detail::fault(cudaErrorLaunchFailure, "cp.async: more than 256 in flight", file, line);
  Copy& copy = own.copy[own.count++];
  copy = {static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes, own.groups, {}};
  move_bytes(copy.seen, copy.from, bytes);
  for (unsigned i = 0; i < 16; ++i) copy.to[i] = shared_poison;
  if (counts) control->copied_bytes += bytes;
}

void cp_async_commit_group() { ++copies[current].groups; }

void cp_async_wait_group(unsigned int left, const char* file, unsigned int line) {
  require_device("cp.async.wait_group");
  Copies& own = copies[current];
  unsigned kept = 0;
  for (unsigned i = 0; i < own.count; ++i) {
    if (own.copy[i].group + left < own.groups) {
      arrive(own.copy[i], file, line);
    } else {
      own.copy[kept++] = own.copy[i];
    }
  }
  own.count = kept;
}

}  // namespace cuda_host
