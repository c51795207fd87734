#pragma once
/// \file
/// How tests get a card, or what stands in for one.
/// defines: test::TestDevice<Cuda>, test::stands_in, test::taken_for_the_cards

#include <tests/support/mirror.hpp>
#include <k3spec/cuda.hpp>

#if __has_include(<cuda_host.h>)
#include <cuda_host.h>
#endif

namespace k3spec::test {

#if __has_include(<cuda_host.h>)
inline constexpr bool stands_in = true;
inline long device_allocations() { return static_cast<long>(cuda_host::allocations()); }
inline long device_launches() { return static_cast<long>(cuda_host::launches()); }
inline long device_tiles() { return static_cast<long>(cuda_host::counted_tiles()); }
inline long device_products() { return static_cast<long>(cuda_host::products()); }
inline long device_waits() { return static_cast<long>(cuda_host::waits()); }
#else
/// A card does not tell.
inline constexpr bool stands_in = false;
inline long device_allocations() { return 0; }
inline long device_launches() { return 0; }
inline long device_tiles() { return 0; }
inline long device_products() { return 0; }
inline long device_waits() { return 0; }
#endif

/// Panels small enough that products of a few rows need several. Real cuBLAS may fail with a small workspace.
inline constexpr CudaOptions small_workspaces{.blas_workspace = stands_in ? 4096 : std::size_t{32} << 20,
                                              .panel_workspace = 6000};

/// A host's view under the type of a card's: a mistake that takes a cast.
template <class T, index_t... E>
View<element_t<Cuda, T>, E...> taken_for_the_cards(const View<T, E...>& host) {
  return {reinterpret_cast<element_t<Cuda, T>*>(host.data()), host.extents(), host.row_stride()};
}

template <>
struct TestDevice<Cuda> {
  static constexpr bool rows_of_products_are_alone = stands_in;
  static const Cuda& get(int) {
    static const Cuda cuda(small_workspaces);
    return cuda;
  }
  static long allocations() { return device_allocations(); }
};

}  // namespace k3spec::test
