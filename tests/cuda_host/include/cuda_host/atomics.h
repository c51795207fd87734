#pragma once
/// \file
/// Atomics: one device thread runs at a time, so plain memory operations are atomic. All give back the old value.

#define CUDA_HOST_ATOMIC(name, T, result) \
  inline T name(T* address, T value) {    \
    const T old = *address;               \
    *address = static_cast<T>(result);    \
    return old;                           \
  }
#define CUDA_HOST_INTEGER_ATOMICS(T)                        \
  CUDA_HOST_ATOMIC(atomicAdd, T, old + value)               \
  CUDA_HOST_ATOMIC(atomicMax, T, old > value ? old : value) \
  CUDA_HOST_ATOMIC(atomicMin, T, old < value ? old : value) \
  CUDA_HOST_ATOMIC(atomicExch, T, value)                    \
  CUDA_HOST_ATOMIC(atomicAnd, T, old& value)                \
  CUDA_HOST_ATOMIC(atomicOr, T, old | value)                \
  CUDA_HOST_ATOMIC(atomicXor, T, old ^ value)               \
  inline T atomicCAS(T* address, T compare, T value) {      \
    const T old = *address;                                 \
    *address = old == compare ? value : old;                \
    return old;                                             \
  }

// Two's complement wraps on a card; so here, where int's overflow would be undefined.
inline int atomicAdd(int* address, int value) {
  const int old = *address;
  *address = static_cast<int>(static_cast<unsigned int>(old) + static_cast<unsigned int>(value));
  return old;
}
inline int atomicSub(int* address, int value) {
  const int old = *address;
  *address = static_cast<int>(static_cast<unsigned int>(old) - static_cast<unsigned int>(value));
  return old;
}
CUDA_HOST_ATOMIC(atomicSub, unsigned int, old - value)
CUDA_HOST_ATOMIC(atomicMax, int, old > value ? old : value)
CUDA_HOST_ATOMIC(atomicMin, int, old < value ? old : value)
CUDA_HOST_ATOMIC(atomicExch, int, value)
CUDA_HOST_ATOMIC(atomicAnd, int, old& value)
CUDA_HOST_ATOMIC(atomicOr, int, old | value)
CUDA_HOST_ATOMIC(atomicXor, int, old ^ value)
inline int atomicCAS(int* address, int compare, int value) {
  const int old = *address;
  *address = old == compare ? value : old;
  return old;
}
CUDA_HOST_INTEGER_ATOMICS(unsigned int)
CUDA_HOST_INTEGER_ATOMICS(unsigned long long)
CUDA_HOST_ATOMIC(atomicAdd, float, old + value)
CUDA_HOST_ATOMIC(atomicAdd, double, old + value)
CUDA_HOST_ATOMIC(atomicExch, float, value)

#undef CUDA_HOST_INTEGER_ATOMICS
#undef CUDA_HOST_ATOMIC
