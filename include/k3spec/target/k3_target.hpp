#pragma once
/// \file
/// The frozen Kimi K3: token ids to hidden states and logits.
/// defines: K3Target

#include <array>
#include <tuple>
#include <utility>

#include <k3spec/config/check.hpp>
#include <k3spec/target/decoder_layer.hpp>

namespace K3SPEC_NAMESPACE {

/// The weights and their names; target/forward.hpp runs them.
template <ForTarget Given>
struct K3Target : detail::CheckedBackbone<complete_target_t<Given>> {
  using Config = complete_target_t<Given>;
  using config = Config;
  using Layout = TargetLayout<Config>;
  static constexpr index_t hidden = Config::hidden_size, vocabulary = Config::vocab_size, layers = Layout::layers;
  using Mix = ResidualMix<hidden>;

  template <LayerKind Kind>
  using Layer = DecoderLayer<Config, Kind>;
  template <class T, LayerKind Kind>
  using LayersOf = std::array<typename Layer<Kind>::template Weights<T>, static_cast<std::size_t>(Layout::count(Kind))>;

  /// Stands where a config has no attention residuals.
  template <class T>
  struct NoResiduals {};

  /// Layers are kept by kind; `layer` finds one by its number.
  template <class T>
  struct Weights {
    View<T, vocabulary, hidden> embed_tokens;
    std::tuple<LayersOf<T, LayerKind::kda_dense>, LayersOf<T, LayerKind::kda_moe>, LayersOf<T, LayerKind::mla_dense>,
               LayersOf<T, LayerKind::mla_moe>>
        layers;
    std::conditional_t<Layout::has_residuals, typename Mix::template Weights<T>, NoResiduals<T>> output_attn_res;
    View<T, hidden> norm;
    View<T, vocabulary, hidden> lm_head;
  };

  /// Calls f(integral_constant<LayerKind>, weights of layer i).
  template <class W, class F>
  static constexpr void with_layer(W& w, index_t i, F&& f) {
    const LayerKind kind = Layout::kind(i);
    const auto slot = static_cast<std::size_t>(Layout::before(i, kind));
    const auto pick = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
      constexpr LayerKind k = static_cast<LayerKind>(K);
      if constexpr (Layout::count(k) > 0) {
        if (kind == k) f(std::integral_constant<LayerKind, k>{}, std::get<K>(w.layers)[slot]);
      }
    };
    [&]<std::size_t... K>(std::index_sequence<K...>) { (pick(std::integral_constant<std::size_t, K>{}), ...); }
    (std::make_index_sequence<layer_kinds>{});
  }

  /// All are frozen: read, never trained.
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    const auto frozen = [&](const Path& path, auto& view, Init init) { v(path, view, Frozen{init}); };
    frozen(at / "model" / "embed_tokens" / "weight", w.embed_tokens, Init::normal);
    for (index_t i = 0; i < layers; ++i) {
      with_layer(w, i, [&](auto kind, auto& layer) { Layer<kind>::visit(layer, at / "model" / "layers" / i, frozen); });
    }
    if constexpr (Layout::has_residuals) {
      Mix::visit(w.output_attn_res, at / "model", "output_attn_res_norm", "output_attn_res_proj", frozen);
    }
    frozen(at / "model" / "norm" / "weight", w.norm, Init::ones);
    frozen(at / "lm_head" / "weight", w.lm_head, Init::normal);
  }

  /// Sum over all tensors, layer kind by layer kind: the published model has a quarter of a million of them, which no
  /// compiler would visit one by one.
  static constexpr index_t count_parameters() {
    index_t total = 2 * vocabulary * hidden + hidden + (Layout::has_residuals ? 2 * hidden : 0);
    const auto add = [&]<LayerKind K>(std::integral_constant<LayerKind, K>) {
      if constexpr (Layout::count(K) > 0) total += Layout::count(K) * parameter_count<Layer<K>>;
    };
    add(std::integral_constant<LayerKind, LayerKind::kda_dense>{});
    add(std::integral_constant<LayerKind, LayerKind::kda_moe>{});
    add(std::integral_constant<LayerKind, LayerKind::mla_dense>{});
    add(std::integral_constant<LayerKind, LayerKind::mla_moe>{});
    return total;
  }

  /// Parameters that a token is multiplied with: all but the embedding and the experts it does not choose.
  static constexpr index_t active_parameters() {
    const index_t moe_layers = Layout::count(LayerKind::kda_moe) + Layout::count(LayerKind::mla_moe);
    const index_t expert = 3 * Config::moe_intermediate_size * Config::routed_expert_hidden_size;
    return count_parameters() - vocabulary * hidden -
           moe_layers * (Config::num_experts - Config::num_experts_per_token) * expert;
  }
};

/// Exact number of parameters of a target.
template <ForTarget Config>
inline constexpr index_t parameter_count<K3Target<Config>> = K3Target<Config>::count_parameters();

}  // namespace K3SPEC_NAMESPACE
