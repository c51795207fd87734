#pragma once
/// \file
/// The mixture of ops/attention_residual.hpp on the CPU.
/// defines: max_residual_values, attention_residual_kernel

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/lane_chains.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Of values that one mixture may have: the depth divided by the block size, plus one.
inline constexpr index_t max_residual_values = 64;

namespace cpu {

/// The score of one value. Lanes past the end of a row add zeros.
template <class S, class T>
S residual_score(const T* x, const S* w, index_t n, double eps) {
  LaneChains<S> squares, dot;
  for_chains<S>(n, [&](auto p, index_t i, index_t m) {
    const Packet<S> a = detail::load_as<S>(x + i, m), b = detail::load_as<S>(w + i, m);
    squares[p] = fma(a, a, squares[p]), dot[p] = fma(a, b, dot[p]);
  });
  return dot.total() / std::sqrt(squares.total() / static_cast<S>(n) + static_cast<S>(eps));
}

/// Turns scores into weights that sum to one, in the order they stand in.
template <class S>
void softmax_few(S* s, index_t n) {
  S top = s[0], total = 0;
  for (index_t j = 1; j < n; ++j) top = max(top, s[j]);
  for (index_t j = 0; j < n; ++j) total += s[j] = std::exp(s[j] - top);
  for (index_t j = 0; j < n; ++j) s[j] /= total;
}

/// y = Σ_j s_j x_j over `count` rows of n elements, j ascending.
template <class S, class T, class Y>
void weighted_sum(std::span<const T* const> x, const S* s, index_t n, Y* y) {
  for (index_t i = 0; i < n; i += Packet<S>::width) {
    const index_t m = std::min(Packet<S>::width, n - i);
    Packet<S> total = Packet<S>(s[0]) * detail::load_as<S>(x[0] + i, m);
    for (std::size_t j = 1; j < x.size(); ++j) total = fma(Packet<S>(s[j]), detail::load_as<S>(x[j] + i, m), total);
    m == Packet<S>::width ? total.store(y + i) : total.store_first(y + i, m);
  }
}

}  // namespace cpu

/// See ops/attention_residual.hpp, which has compared the shapes.
template <class T, class S>
void attention_residual_kernel(const Cpu& device, std::span<const Matrix<T>> values, const Vector<S>& w, double eps,
                               const Matrix<std::remove_const_t<T>>& y) {
  using A = std::remove_const_t<S>;
  const index_t rows = y.extent(0), n = y.extent(1), count = static_cast<index_t>(values.size());
  const index_t height = 16, pieces = ceil_div(rows, height);
  parallel_for(cpu::for_work(device, 4 * rows * n * count), pieces, [&](index_t piece) {
    std::array<A, max_residual_values> s;
    std::array<const T*, max_residual_values> x;
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        x[j] = values[j].row(r);
        s[j] = cpu::residual_score<A>(x[j], w.data(), n, eps);
      }
      cpu::softmax_few(s.data(), count);
      cpu::weighted_sum<A, T>(std::span(x.data(), values.size()), s.data(), n, y.row(r));
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
