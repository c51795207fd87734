#pragma once
/// \file
/// What a config must not say, refused when compiling, each with its reason.
/// defines: CheckedTarget, CheckedEagle3

#include <k3spec/config/kimi_k3.hpp>

namespace k3spec {

namespace detail {

/// One-based, ascending, within 1..layers, the last layer among them or not.
template <class List>
constexpr bool is_layer_list(const List& ids, index_t layers) {
  index_t previous = 0;
  for (const index_t id : ids) {
    if (id <= previous || id > layers) return false;
    previous = id;
  }
  return true;
}

template <class Config>
struct CheckedBackbone {
  static_assert(Config::vocab_size > 0 && Config::hidden_size > 0 && Config::intermediate_size > 0,
                "config: vocab_size, hidden_size and intermediate_size must be positive");
  static_assert(Config::num_key_value_heads == Config::num_attention_heads,
                "config: num_key_value_heads must equal num_attention_heads; latent attention has no grouped heads");
  static_assert(Config::num_attention_heads > 0 && Config::qk_nope_head_dim > 0 && Config::qk_rope_head_dim > 0 &&
                    Config::v_head_dim > 0 && Config::kv_lora_rank > 0 && Config::q_lora_rank.value_or(1) > 0,
                "config: head counts and head and latent dims must be positive");
  static_assert(Config::backbone != Backbone::kimi_k3 || Config::mla_use_nope,
                "config: mla_use_nope = false is not K3: its attention never rotates the rope slice");
};

}  // namespace detail

/// Instantiate, or derive from, to refuse configs no target can have.
template <class Config>
struct CheckedTarget : detail::CheckedBackbone<Config> {
  static_assert(detail::is_layer_list(Config::full_attn_layers, Config::num_hidden_layers),
                "config: full_attn_layers must be one-based, ascending and within num_hidden_layers");
  static_assert(Config::kda_num_heads > 0 && Config::kda_head_dim > 0 && Config::kda_conv_size > 0,
                "config: the KDA head count, head dim and convolution size must be positive");
  static_assert(Config::num_experts_per_token >= 1 && Config::num_experts_per_token <= Config::num_experts,
                "config: num_experts_per_token must be from 1 to num_experts");
  static_assert(Config::num_expert_group >= 1 && Config::num_experts % Config::num_expert_group == 0,
                "config: num_expert_group must divide num_experts");
  static_assert(Config::topk_group >= 1 && Config::topk_group <= Config::num_expert_group,
                "config: topk_group must be from 1 to num_expert_group");
  static_assert(Config::moe_layer_freq >= 1 && Config::first_k_dense_replace >= 0,
                "config: moe_layer_freq must be at least 1 and first_k_dense_replace at least 0");
  static_assert(Config::attn_res_block_size.value_or(1) >= 1, "config: attn_res_block_size must be positive or none");
};

/// The same for EAGLE-3 drafts.
template <class Config>
struct CheckedEagle3 : detail::CheckedBackbone<Config> {
  static_assert(Config::draft_vocab_size > 0 && Config::draft_vocab_size <= Config::vocab_size,
                "config: draft_vocab_size must be from 1 to vocab_size: the draft can say only what the target can");
  static_assert(Config::num_aux_hidden_states >= 1 && Config::target_hidden_size > 0,
                "config: num_aux_hidden_states and target_hidden_size must be positive");
};

}  // namespace k3spec
