#pragma once
/// \file
/// Kimi K3's dimensions as types. A config is any type with these static members; derive from a preset and hide the
/// members you change:
/// ```cpp
/// struct Mine : configs::KimiK3Tiny {
///   static constexpr index_t draft_vocab_size = 64;
/// };
/// ```
/// With K3SPEC_CHANGE (config/change.hpp) a misspelt member is an error; one that is missing always is
/// (config/complete.hpp).
///
/// defines: Backbone, configs::KimiK3Target, configs::KimiK3SmallTarget, configs::KimiK3TinyTarget, configs::KimiK3,
///          configs::KimiK3Small, configs::KimiK3Tiny

#include <array>
#include <optional>

#include <k3spec/config/conventions.hpp>
#include <k3spec/config/eagle3.hpp>

/// \namespace k3spec::configs
/// Model dimensions as types.

namespace K3SPEC_NAMESPACE {

/// The attention block a draft is built from.
enum class Backbone { kimi_k3, deepseek_v3 };
template <>
inline constexpr std::array<std::string_view, 2> names_of<Backbone>{"kimi_k3", "deepseek_v3"};

namespace configs {

namespace detail {
/// One-based ids of the full-attention layers: every 4th and the last.
template <index_t Layers>
constexpr auto every_fourth_and_last() {
  std::array<index_t, static_cast<std::size_t>((Layers + 3) / 4)> ids{};
  for (index_t i = 0; i < Layers / 4; ++i) ids[static_cast<std::size_t>(i)] = 4 * (i + 1);
  ids.back() = Layers;
  return ids;
}
}  // namespace detail

/// Kimi K3 as published: 2.8T parameters, 93 layers. Names are those of the checkpoint's config.json.
struct KimiK3Target {
  static constexpr Backbone backbone = Backbone::kimi_k3;

  static constexpr index_t vocab_size = 163840;
  static constexpr index_t hidden_size = 7168;
  static constexpr index_t intermediate_size = 33792;
  static constexpr index_t num_hidden_layers = 93;
  static constexpr double rms_norm_eps = 1e-5;
  static constexpr double activation_situ_beta = 4.0;
  /// none: `up` is not bounded.
  static constexpr std::optional<double> activation_situ_linear_beta = 25.0;

  // Token ids; none where the model has no such token.
  static constexpr std::optional<index_t> bos_token_id = 163584;
  static constexpr std::optional<index_t> eos_token_id = 163586;
  /// Tokens that end a text beside eos_token_id: [EOS], which the model emits, too.
  static constexpr std::array<index_t, 1> other_stop_token_ids{163585};
  static constexpr std::optional<index_t> pad_token_id = 163839;
  /// Stands where a picture's embeddings go.
  static constexpr std::optional<index_t> media_token_id = 163605;

  // Multi-head latent attention.
  static constexpr index_t num_attention_heads = 96;
  static constexpr index_t num_key_value_heads = 96;
  /// none: queries come straight from q_proj.
  static constexpr std::optional<index_t> q_lora_rank = 1536;
  static constexpr index_t kv_lora_rank = 512;
  static constexpr index_t qk_nope_head_dim = 128;
  static constexpr index_t qk_rope_head_dim = 64;
  static constexpr index_t v_head_dim = 128;
  static constexpr bool mla_use_nope = true;
  static constexpr bool mla_use_output_gate = true;
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::none;

  // Kimi delta attention (linear_attn_config).
  static constexpr index_t kda_num_heads = 96;
  static constexpr index_t kda_head_dim = 128;
  static constexpr index_t kda_conv_size = 4;
  /// none: log-decay is -exp(A_log)·softplus(·).
  static constexpr std::optional<double> kda_gate_lower_bound = -5.0;
  static constexpr bool kda_use_full_rank_gate = true;
  /// One-based; all other layers are KDA.
  static constexpr auto full_attn_layers = detail::every_fourth_and_last<93>();

  // Latent mixture of experts.
  static constexpr index_t num_experts = 896;
  static constexpr index_t num_experts_per_token = 16;
  static constexpr index_t num_shared_experts = 2;
  static constexpr index_t moe_intermediate_size = 3072;
  static constexpr index_t routed_expert_hidden_size = 3584;
  static constexpr bool latent_moe_use_norm = true;
  static constexpr bool moe_renormalize = true;
  static constexpr double routed_scaling_factor = 1.0;
  static constexpr index_t num_expert_group = 1;
  static constexpr index_t topk_group = 1;
  static constexpr index_t first_k_dense_replace = 1;
  static constexpr index_t moe_layer_freq = 1;

  // Attention residuals; none: a plain residual stream.
  static constexpr std::optional<index_t> attn_res_block_size = 12;

  /// eps of q_a_layernorm and kv_a_layernorm inside the target.
  static constexpr double target_mla_norm_eps = 1e-6;
  /// The same; drafts have their own.
  static constexpr double mla_norm_eps = target_mla_norm_eps;
};

/// The public 0.18B miniature of Kimi K3.
struct KimiK3SmallTarget : KimiK3Target {
  static constexpr index_t hidden_size = 512;
  static constexpr index_t intermediate_size = 1024;
  static constexpr index_t num_hidden_layers = 4;
  static constexpr index_t num_attention_heads = 4;
  static constexpr index_t num_key_value_heads = 4;
  static constexpr std::optional<index_t> q_lora_rank = 128;
  static constexpr index_t kv_lora_rank = 64;
  static constexpr index_t qk_nope_head_dim = 64;
  static constexpr index_t qk_rope_head_dim = 32;
  static constexpr index_t v_head_dim = 64;
  static constexpr index_t kda_num_heads = 4;
  static constexpr index_t kda_head_dim = 64;
  static constexpr auto full_attn_layers = detail::every_fourth_and_last<4>();
  static constexpr index_t num_experts = 8;
  static constexpr index_t num_experts_per_token = 2;
  static constexpr index_t num_shared_experts = 1;
  static constexpr index_t moe_intermediate_size = 256;
  static constexpr index_t routed_expert_hidden_size = 256;
  static constexpr std::optional<index_t> attn_res_block_size = 4;
};

/// The trained miniature in examples/data/k3-tiny: byte vocabulary, 2.48M parameters.
struct KimiK3TinyTarget : KimiK3Target {
  static constexpr index_t vocab_size = 260;
  static constexpr index_t hidden_size = 128;
  static constexpr index_t intermediate_size = 256;
  static constexpr index_t num_hidden_layers = 8;
  static constexpr std::optional<index_t> bos_token_id = 256;
  static constexpr std::optional<index_t> eos_token_id = 257;
  static constexpr std::array<index_t, 0> other_stop_token_ids{};
  static constexpr std::optional<index_t> pad_token_id = 258;
  static constexpr std::optional<index_t> media_token_id = std::nullopt;
  static constexpr index_t num_attention_heads = 4;
  static constexpr index_t num_key_value_heads = 4;
  static constexpr std::optional<index_t> q_lora_rank = 48;
  static constexpr index_t kv_lora_rank = 32;
  static constexpr index_t qk_nope_head_dim = 16;
  static constexpr index_t qk_rope_head_dim = 8;
  static constexpr index_t v_head_dim = 16;
  static constexpr index_t kda_num_heads = 4;
  static constexpr index_t kda_head_dim = 32;
  static constexpr auto full_attn_layers = detail::every_fourth_and_last<8>();
  static constexpr index_t num_experts = 16;
  static constexpr index_t num_experts_per_token = 2;
  static constexpr index_t num_shared_experts = 1;
  static constexpr index_t moe_intermediate_size = 64;
  static constexpr index_t routed_expert_hidden_size = 64;
  static constexpr std::optional<index_t> attn_res_block_size = 4;
};

/// EAGLE-3 drafts of these targets, and the targets themselves: a draft's config is its target's, too.
struct KimiK3 : Eagle3<KimiK3Target> {};
/// That of the public miniature.
struct KimiK3Small : Eagle3<KimiK3SmallTarget> {};
/// That of the trained miniature.
struct KimiK3Tiny : Eagle3<KimiK3TinyTarget> {
  static constexpr index_t draft_vocab_size = 64;
};

}  // namespace configs
}  // namespace K3SPEC_NAMESPACE
