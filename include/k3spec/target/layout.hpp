#pragma once
/// \file
/// Which layer of a Kimi K3 is of which kind, and which configs are none.
/// defines: LayerKind, TargetLayout

#include <algorithm>
#include <array>

#include <k3spec/config/kimi_k3.hpp>

namespace K3SPEC_NAMESPACE {

/// Attention and MLP of a layer.
enum class LayerKind { kda_dense, kda_moe, mla_dense, mla_moe };
inline constexpr std::size_t layer_kinds = 4;

/// Layers count from 0 here; full_attn_layers counts from 1, as in the checkpoint. Entries beyond num_hidden_layers are
/// cut off, so that a config can be made shallower by hiding that one member.
template <class Config>
struct TargetLayout {
  static constexpr index_t layers = Config::num_hidden_layers;

  static constexpr bool is_mla(index_t layer) {
    return std::find(Config::full_attn_layers.begin(), Config::full_attn_layers.end(), layer + 1) !=
           Config::full_attn_layers.end();
  }
  static constexpr bool is_moe(index_t layer) {
    return layer >= Config::first_k_dense_replace && layer % Config::moe_layer_freq == 0;
  }
  static constexpr LayerKind kind(index_t layer) {
    if (is_mla(layer)) return is_moe(layer) ? LayerKind::mla_moe : LayerKind::mla_dense;
    return is_moe(layer) ? LayerKind::kda_moe : LayerKind::kda_dense;
  }

  /// Layers of the same kind before `layer`; with layer = layers, all of that kind.
  static constexpr index_t before(index_t layer, LayerKind wanted) {
    index_t count = 0;
    for (index_t i = 0; i < layer; ++i) count += kind(i) == wanted ? 1 : 0;
    return count;
  }
  static constexpr index_t count(LayerKind wanted) { return before(layers, wanted); }

  /// Layers with the same attention before `layer`.
  static constexpr index_t attention_slot(index_t layer) {
    index_t count = 0;
    for (index_t i = 0; i < layer; ++i) count += is_mla(i) == is_mla(layer) ? 1 : 0;
    return count;
  }
  static constexpr index_t mla_layers = count(LayerKind::mla_dense) + count(LayerKind::mla_moe);
  static constexpr index_t kda_layers = layers - mla_layers;

  static constexpr bool has_residuals = Config::attn_res_block_size.has_value();
  static constexpr index_t residual_block = Config::attn_res_block_size.value_or(layers);
  /// Blocks that begin before layer i ends.
  static constexpr index_t residual_blocks = has_residuals ? ceil_div(layers, residual_block) : 0;
  static constexpr bool begins_block(index_t layer) { return has_residuals && layer % residual_block == 0; }

  static constexpr bool ids_ascend() {
    const auto& ids = Config::full_attn_layers;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 1 || (i > 0 && ids[i] <= ids[i - 1])) return false;
    }
    return true;
  }

  static_assert(layers > 0, "K3 target: num_hidden_layers must be positive");
  static_assert(residual_block > 0, "K3 target: attn_res_block_size must be positive, or none");
  static_assert(Config::moe_layer_freq > 0, "K3 target: moe_layer_freq must be positive");
  static_assert(ids_ascend(), "K3 target: full_attn_layers are one-based and ascend; no layer stands twice");
  static_assert(Config::backbone == Backbone::kimi_k3, "K3 target: the config's backbone is not kimi_k3");
};

}  // namespace K3SPEC_NAMESPACE
