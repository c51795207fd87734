#pragma once
/// \file
/// Fibres: stacks between which the device's one thread switches.
/// defines: Fibre, make_fibre, switch_fibre

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_host {

struct Fibre {
  std::uint64_t stack = 0;  ///< lowest usable byte; a guard page is below
  std::size_t stack_size = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context{};
#endif
};

/// Prepares a fibre to run `entry`, which never returns, on the stack that `fibre` names.
void make_fibre(Fibre& fibre, void (*entry)());

/// Saves the running fibre in `from` and goes on with `to`.
void switch_fibre(Fibre& from, Fibre& to);

/// To be called first on a new fibre.
void begin_fibre(Fibre& self);

}  // namespace cuda_host
