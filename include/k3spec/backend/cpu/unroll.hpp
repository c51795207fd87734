#pragma once
/// \file
/// Loops that are written out when compiling.
/// defines: detail::unroll

#include <cstddef>
#include <type_traits>
#include <utility>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// Calls f(0), f(1), … f(N - 1) with constants, so that what they index stays in registers.
template <std::size_t N, class F>
inline void unroll(F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::integral_constant<std::size_t, I>{}), ...); }
  (std::make_index_sequence<N>{});
}

}  // namespace K3SPEC_NAMESPACE::detail
