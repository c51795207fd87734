#pragma once
/// \file
/// The global norm of a gradient and what clipping by it multiplies the gradient with (torch's clip_grad_norm_).
/// defines: norm_block, norm_blocks, gradient_norm, clip_coefficient

#include <algorithm>
#include <array>
#include <cmath>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>

namespace k3spec {

/// Elements that are summed up by themselves before the blocks' sums are added in order: the bits of the norm depend
/// on this number and on no other, so it never changes.
inline constexpr index_t norm_block = 4096;

/// Blocks of a gradient of n elements.
constexpr index_t norm_blocks(index_t n) { return (n + norm_block - 1) / norm_block; }

namespace detail {

/// In double, as eight chains so that they fit vector registers.
template <class S>
double sum_of_squares(const S* p, index_t n) {
  constexpr index_t width = 8;
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

}  // namespace detail

/// sqrt(Σ g²), summed in double.
/// \param sums  one element for each of norm_blocks(g), overwritten
template <class S>
double gradient_norm(const Cpu& cpu, Vector<const S> g, Vector<double> sums) {
  const index_t n = g.extent(0), blocks = norm_blocks(n);
  if (sums.extent(0) != blocks) {
    throw Error("gradient_norm: sums", std::to_string(sums.extent(0)), std::to_string(blocks));
  }
  parallel_for(cpu, blocks, [&](index_t b) {
    const index_t begin = b * norm_block;
    sums(b) = detail::sum_of_squares(g.data() + begin, std::min(norm_block, n - begin));
  });
  double total = 0;
  for (index_t b = 0; b < blocks; ++b) total += sums(b);
  return std::sqrt(total);
}

/// What a gradient of norm `norm` is multiplied with so that its norm is at most `largest`.
inline double clip_coefficient(double norm, double largest) { return std::min(1.0, largest / (norm + 1e-6)); }

}  // namespace k3spec
