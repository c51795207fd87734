#pragma once
/// \file
/// YaRN (arXiv 2309.00071): rotary frequencies stretched for positions beyond those a model was first trained on.
/// defines: Yarn, effective_yarn

#include <optional>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// What rope_scaling says.
struct Yarn {
  double factor, beta_fast, beta_slow;
  index_t original_max_position_embeddings;
  /// Temperature of the softmax, 0.1·mscale_all_dim·ln(factor) + 1: only where softmax_mscale says so.
  double mscale = 1, mscale_all_dim = 1;

  friend constexpr bool operator==(const Yarn&, const Yarn&) = default;
};

/// The config's YaRN where it has an effect: where positions go beyond the original ones.
template <class Config>
constexpr std::optional<Yarn> effective_yarn() {
  constexpr std::optional<Yarn> yarn = Config::rope_scaling;
  if (yarn && Config::max_position_embeddings > yarn->original_max_position_embeddings) return yarn;
  return std::nullopt;
}

}  // namespace K3SPEC_NAMESPACE
