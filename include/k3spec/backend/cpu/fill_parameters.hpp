#pragma once
/// \file
/// A tensor's first values, on the CPU (core/parameters.hpp).
/// defines: fill_parameters

#include <algorithm>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// What `init` says; element i of Init::normal is deviation · draw i.
template <class T>
void fill_parameters(const Cpu& cpu, const Vector<T>& to, Init init, const Philox& random, double deviation) {
  constexpr index_t block = 4096;
  const index_t n = to.extent(0);
  parallel_for(cpu, ceil_div(n, block), [&](index_t piece) {
    for (index_t i = piece * block; i < std::min(n, (piece + 1) * block); ++i) {
      const double value = init == Init::normal ? deviation * random.normal(static_cast<std::uint64_t>(i))
                                                : (init == Init::ones ? 1.0 : 0.0);
      to(i) = static_cast<T>(static_cast<accumulate_t<T>>(value));
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
