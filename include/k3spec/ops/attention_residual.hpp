#pragma once
/// \file
/// Attention residuals: a softmax over the values x_j (the starts of earlier blocks and the current sum), scored by a
/// learned vector w on their RMS-normed values, mixes the values as they are.
/// ```text
/// s_j = Σ_h x_j[h] w[h] / sqrt(mean x_j² + eps),   y = Σ_j softmax(s)_j x_j
/// ```
/// x_j, y [rows, H]; w [H], the product of the norm's and the projection's weights, in the accumulation type.
/// defines: max_residual_values, attention_residual

#include <array>
#include <cmath>
#include <span>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Of values that one mixture may have: the depth divided by the block size, plus one.
inline constexpr index_t max_residual_values = 64;

namespace detail {

/// The score of one value. Lanes past the end of a row add zeros.
template <class S, class T>
S residual_score(const T* x, const S* w, index_t n, double eps) {
  Packet<S> squares(S(0)), dot(S(0));
  const auto add = [&](Packet<S> a, Packet<S> b) { squares = fma(a, a, squares), dot = fma(a, b, dot); };
  index_t i = 0;
  for (; i + Packet<S>::width <= n; i += Packet<S>::width) add(Packet<S>::load(x + i), Packet<S>::load(w + i));
  if (i < n) add(Packet<S>::load_first(x + i, n - i), Packet<S>::load_first(w + i, n - i));
  return sum(dot) / std::sqrt(sum(squares) / static_cast<S>(n) + static_cast<S>(eps));
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
  const auto mix = [&](index_t i, auto load) {
    Packet<S> total = Packet<S>(s[0]) * load(x[0] + i);
    for (std::size_t j = 1; j < x.size(); ++j) total = fma(Packet<S>(s[j]), load(x[j] + i), total);
    return total;
  };
  index_t i = 0;
  for (; i + Packet<S>::width <= n; i += Packet<S>::width) {
    mix(i, [](const T* p) { return Packet<S>::load(p); }).store(y + i);
  }
  if (i < n) mix(i, [&](const T* p) { return Packet<S>::load_first(p, n - i); }).store_first(y + i, n - i);
}

}  // namespace detail

/// Values x_j, each [rows, H] -> y [rows, H], see above.
/// \throws Error on no value or too many, and on shapes that do not fit y's
template <class T, class S>
void attention_residual(const Cpu& cpu, std::span<const Matrix<T>> values, const Vector<S>& w, double eps,
                        const Matrix<std::remove_const_t<T>>& y) {
  using A = std::remove_const_t<S>;
  const index_t rows = y.extent(0), n = y.extent(1), count = static_cast<index_t>(values.size());
  if (count < 1 || count > max_residual_values) {
    throw Error("attention_residual: values", std::to_string(count), "1 to " + std::to_string(max_residual_values));
  }
  for (const auto& x : values) require_shape("attention_residual: values", x, rows, n);
  require_count("attention_residual: w", w.extent(0), n);
  const index_t height = 16, pieces = (rows + height - 1) / height;
  parallel_for(cpu::for_work(cpu, 4 * rows * n * count), pieces, [&](index_t piece) {
    std::array<A, max_residual_values> s;
    std::array<const T*, max_residual_values> x;
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        x[j] = values[j].row(r);
        s[j] = detail::residual_score<A>(x[j], w.data(), n, eps);
      }
      detail::softmax_few(s.data(), count);
      detail::weighted_sum<A, T>(std::span(x.data(), values.size()), s.data(), n, y.row(r));
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
