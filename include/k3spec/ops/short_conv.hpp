#pragma once
/// \file
/// Causal depthwise convolution, then SiLU: y[t, c] = silu( Σ_j w[j, c] · x[t - (K - 1) + j, c] ), the sum being one
/// chain of fused multiply-adds, oldest input first. Inputs are rounded to the storage type.
/// x [rows, 3 · C] has those of three convolutions side by side; y [rows, C] and w [K, C] of each, w being the
/// checkpoint's [C, 1, K] with its axes turned. A sequence's window has the K - 1 inputs before its first row, and
/// behind them those that are pending. These it takes over first; then it gets the new inputs: all of them behind the
/// K - 1, if they are logged, else the last K - 1.
/// defines: short_conv

#include <k3spec/backend/cpu/short_conv.hpp>
#include <k3spec/ops/kda.hpp>

namespace K3SPEC_NAMESPACE {

/// x -> y and the sequences' windows, see above.
/// \throws Error on shapes that do not fit x's, and on sequences whose tokens x or their windows have not
template <Device D, Element T>
void short_conv(const D& device, const ShortConv<T>& problem) {
  constexpr auto parts = static_cast<index_t>(ShortConv<T>::parts);
  const index_t rows = problem.rows(), channels = problem.y[0].extent(1), before = problem.before();
  require_shape("short_conv: x", problem.x, rows, parts * channels);
  if (before < 0) throw Error("short_conv: w: rows", "0", "at least 1");
  for (const auto& w : problem.w) require_shape("short_conv: w", w, before + 1, channels);
  for (const auto& y : problem.y) require_shape("short_conv: y", y, rows, channels);
  detail::require_sequences(problem.sequences, problem.count, rows);
  for (index_t b = 0; b < problem.count; ++b) {
    const KdaSequence<T>& s = problem.sequences[b];
    require_shape("short_conv: window", s.memory.window, before + s.memory.rollback, parts * channels);
    if (s.logged) continue;
    require_part("short_conv: scratch", 0, before + s.tokens, problem.scratch.extent(0));
    require_count("short_conv: scratch", problem.scratch.row_size(), parts * channels, " columns");
  }
  short_conv_kernel(device, problem);
}

}  // namespace K3SPEC_NAMESPACE
