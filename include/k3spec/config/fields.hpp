#pragma once
/// \file
/// A config's fields by the names config.json has for them; a dot stands for nesting. Written once, so that reading,
/// comparing and writing cannot disagree. Rotary positions stand in one of two forms: see io/rope_config.hpp.
/// defines: visit_target_fields, visit_eagle3_fields, visit_dflash_fields, visit_dspark_fields, visit_yarn_fields

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/config/rope_scaling.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// What only one of the backbones has.
template <class Config, class V>
constexpr void visit_own_backbone_fields(V&& v) {
  if constexpr (Config::backbone == Backbone::kimi_k3) {
    v("activation_situ_beta", Config::activation_situ_beta);
    v("activation_situ_linear_beta", Config::activation_situ_linear_beta);
  } else {
    v("max_position_embeddings", Config::max_position_embeddings);
  }
}

/// What the target and the drafts built from its layers share. `v(name, value)` for each field.
template <class Config, class V>
constexpr void visit_backbone_fields(V&& v) {
  v("vocab_size", Config::vocab_size);
  v("hidden_size", Config::hidden_size);
  v("intermediate_size", Config::intermediate_size);
  v("rms_norm_eps", Config::rms_norm_eps);
  visit_own_backbone_fields<Config>(v);
  v("bos_token_id", Config::bos_token_id);
  v("eos_token_id", Config::eos_token_id);
  v("pad_token_id", Config::pad_token_id);
  v("num_attention_heads", Config::num_attention_heads);
  v("num_key_value_heads", Config::num_key_value_heads);
  v("q_lora_rank", Config::q_lora_rank);
  v("kv_lora_rank", Config::kv_lora_rank);
  v("qk_nope_head_dim", Config::qk_nope_head_dim);
  v("qk_rope_head_dim", Config::qk_rope_head_dim);
  v("v_head_dim", Config::v_head_dim);
  v("mla_use_nope", Config::mla_use_nope);
  v("mla_use_output_gate", Config::mla_use_output_gate);
}

}  // namespace detail

/// The fields of a Kimi K3 target. Values are index_t, double, bool, optionals of them (none: null or absent), and
/// arrays of one-based layer ids.
template <class Config, class V>
constexpr void visit_target_fields(V&& v) {
  detail::visit_backbone_fields<Config>(v);
  v("num_hidden_layers", Config::num_hidden_layers);
  v("linear_attn_config.num_heads", Config::kda_num_heads);
  v("linear_attn_config.head_dim", Config::kda_head_dim);
  v("linear_attn_config.short_conv_kernel_size", Config::kda_conv_size);
  v("linear_attn_config.gate_lower_bound", Config::kda_gate_lower_bound);
  v("linear_attn_config.use_full_rank_gate", Config::kda_use_full_rank_gate);
  v("linear_attn_config.full_attn_layers", Config::full_attn_layers);
  v("num_experts", Config::num_experts);
  v("num_experts_per_token", Config::num_experts_per_token);
  v("num_shared_experts", Config::num_shared_experts);
  v("moe_intermediate_size", Config::moe_intermediate_size);
  v("routed_expert_hidden_size", Config::routed_expert_hidden_size);
  v("latent_moe_use_norm", Config::latent_moe_use_norm);
  v("moe_renormalize", Config::moe_renormalize);
  v("routed_scaling_factor", Config::routed_scaling_factor);
  v("num_expert_group", Config::num_expert_group);
  v("topk_group", Config::topk_group);
  v("first_k_dense_replace", Config::first_k_dense_replace);
  v("moe_layer_freq", Config::moe_layer_freq);
  v("attn_res_block_size", Config::attn_res_block_size);
}

/// The fields of an EAGLE-3 draft.
template <class Config, class V>
constexpr void visit_eagle3_fields(V&& v) {
  detail::visit_backbone_fields<Config>(v);
  v("mla_norm_eps", Config::mla_norm_eps);
  v("draft_vocab_size", Config::draft_vocab_size);
  v("num_aux_hidden_states", Config::num_aux_hidden_states);
  v("target_hidden_size", Config::target_hidden_size);
  v("fc_norm", Config::fc_norm);
  v("norm_output", Config::norm_output);
  v("train_embeddings", Config::train_embeddings);
}

namespace detail {

/// What block drafts share.
template <class Config, class V>
constexpr void visit_block_fields(V&& v) {
  visit_backbone_fields<Config>(v);
  v("mla_norm_eps", Config::mla_norm_eps);
  v("num_hidden_layers", Config::num_draft_layers);
  v("target_hidden_size", Config::target_hidden_size);
  v("block_size", Config::block_size);
  v("mask_token_id", Config::mask_token_id);
  v("block_causal", Config::block_causal);
  v("sliding_window", Config::sliding_window);
}

}  // namespace detail

/// The fields of a DFlash draft.
template <class Config, class V>
constexpr void visit_dflash_fields(V&& v) {
  detail::visit_block_fields<Config>(v);
}

/// The fields of a DSpark draft.
template <class Config, class V>
constexpr void visit_dspark_fields(V&& v) {
  detail::visit_block_fields<Config>(v);
  v("markov_rank", Config::markov_rank);
  v("markov_head_type", Config::markov_head_type);
  v("enable_confidence_head", Config::enable_confidence_head);
  v("confidence_head_with_markov", Config::confidence_head_with_markov);
  v("train_embeddings", Config::train_embeddings);
}

/// What stands in rope_scaling, beside the type.
template <class V>
constexpr void visit_yarn_fields(const Yarn& yarn, V&& v) {
  v("factor", yarn.factor);
  v("beta_fast", yarn.beta_fast);
  v("beta_slow", yarn.beta_slow);
  v("original_max_position_embeddings", yarn.original_max_position_embeddings);
  v("mscale", yarn.mscale);
  v("mscale_all_dim", yarn.mscale_all_dim);
}

}  // namespace K3SPEC_NAMESPACE
