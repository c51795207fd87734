#pragma once
/// \file
/// Working memory of the target's forward.
/// defines: ResidualStreams, TargetScratch

#include <algorithm>
#include <array>
#include <span>

#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/target/decoder_layer.hpp>

namespace K3SPEC_NAMESPACE {

/// The residual streams, [rows, hidden] each: the starts of the blocks so far, and the current sum.
template <class Config, Element T>
struct ResidualStreams {
  static constexpr index_t hidden = Config::hidden_size;
  static constexpr index_t streams = TargetLayout<Config>::residual_blocks + 1;
  static_assert(streams <= max_residual_values, "K3 target: attn_res_block_size is too small for so many layers");

  std::array<Matrix<T>, static_cast<std::size_t>(streams)> stream;
  Matrix<T> mixed, normed;
  index_t blocks = 0;

  template <Allocator A>
  static constexpr ResidualStreams allocate(A& a, index_t rows) {
    ResidualStreams s;
    for (auto& m : s.stream) detail::take_matrix(a, m, rows, hidden);
    detail::take_matrix(a, s.mixed, rows, hidden), detail::take_matrix(a, s.normed, rows, hidden);
    return s;
  }
  const Matrix<T>& current() const { return stream[static_cast<std::size_t>(blocks)]; }
  /// All values that a mixture has, the current sum last.
  std::span<const Matrix<T>> values() const { return std::span(stream.data(), static_cast<std::size_t>(blocks + 1)); }
};

/// How much memory a forward takes.
template <class Config, Element T>
struct TargetScratch {
  using Layout = TargetLayout<Config>;

  /// Of one sequence; several take no more than several times as much.
  static constexpr std::size_t bytes(index_t tokens) {
    return plan_bytes([&](ArenaPlan& a) {
      ResidualStreams<Config, T>::allocate(a, tokens);
      if (is_placed<T>) a.borrow(detail::piece<index_t>(tokens));  // of ids
      a.borrow(layer_bytes(tokens));
    });
  }

 private:
  static constexpr std::size_t layer_bytes(index_t tokens) {
    std::size_t most = 0;
    const auto need = [&](bool used, auto&& take) {
      if (used) most = std::max(most, plan_bytes(take));
    };
    const auto any = [&](LayerKind a, LayerKind b) { return Layout::count(a) + Layout::count(b) > 0; };
    need(any(LayerKind::kda_dense, LayerKind::kda_moe),
         [&](ArenaPlan& a) { KdaAttention<Config>::template Scratch<T>::allocate(a, tokens, tokens); });
    need(any(LayerKind::mla_dense, LayerKind::mla_moe),
         [&](ArenaPlan& a) { MlaAttention<Config>::template Scratch<T>::allocate(a, tokens); });
    need(any(LayerKind::kda_dense, LayerKind::mla_dense),
         [&](ArenaPlan& a) { DenseMLP<Config, Config::intermediate_size>::template Scratch<T>::allocate(a, tokens); });
    need(any(LayerKind::kda_moe, LayerKind::mla_moe),
         [&](ArenaPlan& a) { a.borrow(LatentMoe<Config>::template scratch_bytes<T>(tokens)); });
    return most;
  }
};

}  // namespace K3SPEC_NAMESPACE
