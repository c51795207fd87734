#pragma once
/// \file
/// The sums of squares of ops/sum_of_squares.hpp on the CPU.
/// defines: cpu::sum_of_squares, sums_of_squares_kernel

#include <algorithm>
#include <array>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/order.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// Of n numbers, in double precision and a fixed order.
template <class S>
double sum_of_squares(const S* p, index_t n) {
  constexpr index_t width = expr::square_chains;
  std::array<double, width> chains{};
  index_t i = 0;
  for (; i + width <= n; i += width) {
    for (std::size_t j = 0; j < width; ++j) {
      const auto x = static_cast<double>(p[i + static_cast<index_t>(j)]);
      chains[j] = chains[j] + x * x;
    }
  }
  for (std::size_t j = 0; i < n; ++i, ++j) chains[j] += static_cast<double>(p[i]) * static_cast<double>(p[i]);
  double total = 0;
  for (const double chain : chains) total += chain;
  return total;
}

}  // namespace cpu

/// See ops/sum_of_squares.hpp, which has compared the sizes.
template <class S>
void sums_of_squares_kernel(const Cpu& device, const Vector<const S>& x, const Vector<double>& sums) {
  parallel_for(device, sums.extent(0), [&](index_t b) {
    const index_t begin = b * expr::square_block;
    sums(b) = cpu::sum_of_squares(x.data() + begin, std::min(expr::square_block, x.extent(0) - begin));
  });
}

}  // namespace K3SPEC_NAMESPACE
