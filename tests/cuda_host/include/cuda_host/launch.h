#pragma once
/// \file
/// The launch: arguments are converted to the kernel's parameters and their bytes copied at the call, as CUDA does.
/// defines: cudaLaunchKernelEx

#include <array>
#include <memory>
#include <type_traits>
#include <utility>

#include "../cuda_runtime_api.h"

namespace cuda_host::detail {

using Kernel = void (*)();
using Invoke = void (*)(Kernel kernel, const unsigned char* arguments);

inline constexpr std::size_t max_argument_bytes = 32764;  // CUDA 12.1 and later, compute capability 7.0 and later

cudaError_t launch(const cudaLaunchConfig_t* config, Kernel kernel, Invoke invoke, const unsigned char* arguments,
                   std::size_t bytes);

/// Where each parameter lies in the block of arguments; the last entry is the size of it all.
template <class... P>
constexpr std::array<std::size_t, sizeof...(P) + 1> offsets() {
  constexpr std::size_t sizes[] = {sizeof(P)..., 1}, alignments[] = {alignof(P)..., 1};
  std::array<std::size_t, sizeof...(P) + 1> at{};
  std::size_t end = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
    end = at[i] + sizes[i];
  }
  return at;
}

/// memcpy that no compiler looks into: parameters may have padding, which was never written.
void copy_bytes(void* to, const void* from, std::size_t bytes);

/// Calls the kernel for one thread; each thread has its own copy of the parameters.
template <class... P>
void invoke(Kernel kernel, [[maybe_unused]] const unsigned char* arguments) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    [[maybe_unused]] constexpr auto at = offsets<P...>();
    reinterpret_cast<void (*)(P...)>(kernel)(*reinterpret_cast<const P*>(arguments + at[I])...);
  }
  (std::index_sequence_for<P...>{});
}

template <class... P>
cudaError_t launch_with(const cudaLaunchConfig_t* config, void (*kernel)(P...), P... parameters) {
  constexpr auto at = offsets<P...>();
  static_assert(at.back() <= max_argument_bytes, "a kernel's parameters are at most 32,764 bytes");
  alignas(64) unsigned char bytes[at.back() + 1] = {};
  [[maybe_unused]] std::size_t i = 0;
  (copy_bytes(bytes + at[i++], std::addressof(parameters), sizeof(P)), ...);
  return launch(config, reinterpret_cast<Kernel>(kernel), &invoke<P...>, bytes, at.back());
}

}  // namespace cuda_host::detail

template <class... P, class... A>
  requires(sizeof...(P) == sizeof...(A) && (std::is_convertible_v<A, P> && ...))
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  return cuda_host::detail::launch_with<P...>(config, kernel, static_cast<P>(std::forward<A>(arguments))...);
}
