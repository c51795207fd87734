#pragma once
/// \file
/// Warp shuffles and votes. All lanes that `mask` names must come to the same call with the same mask. A value taken
/// from a lane outside the mask is poison, a shuffle whose mask names a lane that exited or never was is an error.

#include <cstring>
#include <type_traits>

#include "device.h"

namespace cuda_host::detail {

enum class Meeting : unsigned char { sync, shuffle, ballot, any, all, collective };

/// The lanes of `mask` meet; the result is the value of lane `source` (shuffle) or the lanes whose value is not zero.
unsigned long long meet(Meeting kind, unsigned int mask, unsigned long long value, unsigned int source,
                        const char* file, unsigned int line);
void check_width(int width, const char* file, unsigned int line);

inline unsigned int lane() { return position.rank % 32U; }

template <class T>
T shuffle(unsigned int mask, T value, unsigned int source, const char* file, unsigned int line) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "no shuffle for this type");
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet(Meeting::shuffle, mask, bits, source, file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cuda_host::detail

template <class T>
T __shfl_sync(unsigned int mask, T value, int source, int width = 32, CUDA_HOST_HERE) {
  cuda_host::detail::check_width(width, file, line);
  const unsigned int within = static_cast<unsigned int>(width) - 1U;
  const unsigned int from = (cuda_host::detail::lane() & ~within) | (static_cast<unsigned int>(source) & within);
  return cuda_host::detail::shuffle(mask, value, from, file, line);
}

template <class T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32, CUDA_HOST_HERE) {
  cuda_host::detail::check_width(width, file, line);
  const unsigned int lane = cuda_host::detail::lane(), within = static_cast<unsigned int>(width) - 1U;
  return cuda_host::detail::shuffle(mask, value, (lane & within) < delta ? lane : lane - delta, file, line);
}

template <class T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32, CUDA_HOST_HERE) {
  cuda_host::detail::check_width(width, file, line);
  const unsigned int lane = cuda_host::detail::lane(), within = static_cast<unsigned int>(width) - 1U;
  return cuda_host::detail::shuffle(mask, value, delta > within - (lane & within) ? lane : lane + delta, file, line);
}

template <class T>
T __shfl_xor_sync(unsigned int mask, T value, int lane_mask, int width = 32, CUDA_HOST_HERE) {
  cuda_host::detail::check_width(width, file, line);
  const unsigned int lane = cuda_host::detail::lane(), last = lane | (static_cast<unsigned int>(width) - 1U);
  const unsigned int from = lane ^ static_cast<unsigned int>(lane_mask);
  return cuda_host::detail::shuffle(mask, value, from > last ? lane : from, file, line);
}

inline void __syncwarp(unsigned int mask = 0xffffffffU, CUDA_HOST_HERE) {
  cuda_host::detail::meet(cuda_host::detail::Meeting::sync, mask, 0, 0, file, line);
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate, CUDA_HOST_HERE) {
  return static_cast<unsigned int>(
      cuda_host::detail::meet(cuda_host::detail::Meeting::ballot, mask, predicate != 0, 0, file, line));
}
inline int __any_sync(unsigned int mask, int predicate, CUDA_HOST_HERE) {
  return cuda_host::detail::meet(cuda_host::detail::Meeting::any, mask, predicate != 0, 0, file, line) != 0;
}
inline int __all_sync(unsigned int mask, int predicate, CUDA_HOST_HERE) {
  return cuda_host::detail::meet(cuda_host::detail::Meeting::all, mask, predicate == 0, 0, file, line) == 0;
}
/// Lanes that happen to run together: CUDA promises no more than the calling one.
inline unsigned int __activemask() { return 1U << cuda_host::detail::lane(); }
