#pragma once
/// \file
/// sums[b] = Σ x², in double, over block b of x, in the order of expr/order.hpp. x [n], sums [square_blocks(n)].
/// defines: sums_of_squares

#include <algorithm>
#include <array>
#include <string>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/error.hpp>
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

/// The sums of squares of the blocks of x, see expr::square_blocks.
/// \throws Error when `sums` has not one element for each block
template <class S>
void sums_of_squares(const Cpu& cpu, Vector<const S> x, Vector<double> sums) {
  const index_t n = x.extent(0), blocks = expr::square_blocks(n);
  if (sums.extent(0) != blocks) {
    throw Error("sums_of_squares: sums", std::to_string(sums.extent(0)), std::to_string(blocks));
  }
  parallel_for(cpu, blocks, [&](index_t b) {
    const index_t begin = b * expr::square_block;
    sums(b) = cpu::sum_of_squares(x.data() + begin, std::min(expr::square_block, n - begin));
  });
}

}  // namespace K3SPEC_NAMESPACE
