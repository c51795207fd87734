#pragma once
/// \file
/// Causal depthwise convolution, then SiLU: y[t, c] = silu( Σ_j w[j, c] · x[t - (K - 1) + j, c] ), the sum being one
/// chain of fused multiply-adds, oldest input first.
/// x is a window [K - 1 + n, C] whose first K - 1 rows are the inputs before this chunk; y [n, C]; w [K, C], which is
/// the checkpoint's [C, 1, K] with its axes turned.
/// defines: short_conv

#include <algorithm>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/functors.hpp>

namespace K3SPEC_NAMESPACE {

/// window [kernel - 1 + n, channels] -> y [n, channels], see above.
/// \throws Error on shapes that do not fit y's
template <class T, class W, class S>
void short_conv(const Cpu& cpu, const Matrix<const T>& window, const Matrix<const W>& w, const Matrix<S>& y) {
  using P = Packet<S>;
  const index_t n = y.extent(0), channels = y.extent(1), height = 16;
  if (w.extent(0) < 1) throw Error("short_conv: w: rows", "0", "at least 1");
  require_shape("short_conv: w", w, w.extent(0), channels);
  require_shape("short_conv: x", window, w.extent(0) - 1 + n, channels);
  const auto packet = [&](index_t t, index_t c, auto load) {
    P sum(S(0));
    for (index_t j = 0; j < w.extent(0); ++j) sum = fma(load(window.row(t + j) + c), load(w.row(j) + c), sum);
    return sum * functor::Sigmoid::value(sum);
  };
  parallel_for(cpu::for_work(cpu, n * channels * 8), (n + height - 1) / height, [&](index_t piece) {
    for (index_t t = piece * height; t < std::min(n, (piece + 1) * height); ++t) {
      index_t c = 0;
      for (; c + P::width <= channels; c += P::width) {
        packet(t, c, [](const auto* p) { return P::load(p); }).store(y.row(t) + c);
      }
      const index_t rest = channels - c;
      if (rest > 0) packet(t, c, [=](const auto* p) { return P::load_first(p, rest); }).store_first(y.row(t) + c, rest);
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
