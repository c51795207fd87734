#pragma once
/// \file
/// The weights of one layer, and the layer's parts prepacked.
/// defines: DecoderLayer, PrepackedDecoderLayer

#include <optional>
#include <type_traits>

#include <k3spec/core/held.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/target/kda_attention.hpp>
#include <k3spec/target/latent_moe.hpp>
#include <k3spec/target/layout.hpp>
#include <k3spec/target/mla_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// Norm and scoring vector of one attention residual.
template <index_t Hidden>
struct ResidualMix {
  /// The mixture's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename KimiRMSNorm<Hidden>::template Weights<T> norm;
    typename Linear<Hidden, 1>::template Weights<T> proj;
  };

  /// Names the tensors.
  /// \param norm, proj  the names of the two
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, std::string_view norm, std::string_view proj, V&& v) {
    KimiRMSNorm<Hidden>::visit(w.norm, at / norm, v);
    Linear<Hidden, 1>::visit(w.proj, at / proj, v);
  }

  /// norm.w ⊙ proj.w, for a target of elements T
  template <class T, class Tensor>
  static Buffer<accumulate_t<T>> freeze(const Weights<Tensor>& w) {
    using S = accumulate_t<T>;
    const auto norm = on_host(w.norm.weight);
    const auto proj = on_host(w.proj.weight);
    Buffer<S> product(Hidden);
    for (index_t i = 0; i < Hidden; ++i)
      product[i] = static_cast<S>(norm.view()(i)) * static_cast<S>(proj.view()(0, i));
    return product;
  }
};

/// A layer of the target: attention and MLP, each of one of two kinds.
template <class Config, LayerKind Kind>
struct DecoderLayer {
  static constexpr index_t hidden = Config::hidden_size;
  static constexpr bool is_mla = Kind == LayerKind::mla_dense || Kind == LayerKind::mla_moe;
  static constexpr bool is_moe = Kind == LayerKind::kda_moe || Kind == LayerKind::mla_moe;
  static constexpr bool has_residuals = TargetLayout<Config>::has_residuals;

  using Attention = std::conditional_t<is_mla, MlaAttention<Config>, KdaAttention<Config>>;
  using MLP = std::conditional_t<is_moe, LatentMoe<Config>, DenseMLP<Config, Config::intermediate_size>>;
  using Norm = KimiRMSNorm<hidden>;
  using Mix = ResidualMix<hidden>;

  /// The tensors of both attention residuals.
  template <class T>
  struct Residuals {
    typename Mix::template Weights<T> self_attention_res, mlp_res;
  };
  /// Stands where a config has no attention residuals.
  template <class T>
  struct NoResiduals {};

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    std::conditional_t<has_residuals, Residuals<T>, NoResiduals<T>> mix;
    typename Norm::template Weights<T> input_layernorm, post_attention_layernorm;
    typename Attention::template Weights<T> self_attn;
    typename MLP::template Weights<T> mlp;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    if constexpr (has_residuals) {
      Mix::visit(w.mix.self_attention_res, at, "self_attention_res_norm", "self_attention_res_proj", v);
      Mix::visit(w.mix.mlp_res, at, "mlp_res_norm", "mlp_res_proj", v);
    }
    Norm::visit(w.input_layernorm, at / "input_layernorm", v);
    Attention::visit(w.self_attn, at / "self_attn", v);
    Norm::visit(w.post_attention_layernorm, at / "post_attention_layernorm", v);
    MLP::visit(w.mlp, at / (is_moe ? "block_sparse_moe" : "mlp"), v);
  }
};

/// One layer, prepacked. Of the two attentions and the two MLPs, it has the one that its kind says.
template <class Config, class T>
struct PrepackedDecoderLayer {
  using S = accumulate_t<T>;
  using D = place_t<T>;
  using Host = value_t<T>;
  buffer_t<D, S> attention_mix, mlp_mix;  ///< [hidden] each, or nothing without attention residuals
  Held<D, Host, dyn> input_norm, mlp_norm;
  std::optional<typename KdaAttention<Config>::template Prepacked<T>> kda;
  std::optional<typename MlaAttention<Config>::template Prepacked<T>> mla;
  std::optional<typename DenseMLP<Config, Config::intermediate_size>::template Prepacked<T>> dense;
  std::optional<typename LatentMoe<Config>::template Prepacked<T>> moe;

  /// Lays a layer's weights out.
  /// \param w  the layer's Weights<const Host>, or Weights<Unread<Host>>
  template <LayerKind Kind, class W>
  PrepackedDecoderLayer(const D& device, std::integral_constant<LayerKind, Kind>, const W& w)
      : input_norm(device, w.input_layernorm.weight), mlp_norm(device, w.post_attention_layernorm.weight) {
    using Layer = DecoderLayer<Config, Kind>;
    if constexpr (Layer::has_residuals) {
      attention_mix = moved_to(device, Layer::Mix::template freeze<Host>(w.mix.self_attention_res));
      mlp_mix = moved_to(device, Layer::Mix::template freeze<Host>(w.mix.mlp_res));
    }
    if constexpr (Layer::is_mla) mla.emplace(device, w.self_attn);
    if constexpr (!Layer::is_mla) kda.emplace(device, w.self_attn);
    if constexpr (Layer::is_moe) moe.emplace(device, w.mlp);
    if constexpr (!Layer::is_moe) dense.emplace(device, w.mlp);
  }

  /// What its weights take.
  std::size_t bytes() const {
    return sizeof(S) * static_cast<std::size_t>(attention_mix.size() + mlp_mix.size()) + input_norm.bytes() +
           mlp_norm.bytes() + (kda ? kda->bytes() : mla->bytes()) + (moe ? moe->bytes() : dense->bytes());
  }
};

}  // namespace K3SPEC_NAMESPACE
