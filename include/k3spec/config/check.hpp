#pragma once
/// \file
/// What a config must not say, refused when compiling, each with its reason.
/// defines: CheckedTarget, CheckedEagle3, CheckedDFlash, CheckedDSpark, check_mask_token,
/// mask_token_warning

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/config/stop_tokens.hpp>
#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

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
constexpr bool has_rope_scaling() {
  if constexpr (requires { Config::rope_scaling; }) return Config::rope_scaling.has_value();
  return false;
}

/// Whether the numbers of a config's rotary positions, if it has any, can be ones.
template <class Config>
constexpr bool has_sound_rope() {
  if constexpr (requires { Config::rope_theta; }) {
    if (Config::rope_theta <= 1 || Config::max_position_embeddings < 1) return false;
  }
  if constexpr (has_rope_scaling<Config>()) {
    constexpr auto yarn = *Config::rope_scaling;
    return yarn.factor >= 1 && yarn.original_max_position_embeddings >= 1 && yarn.beta_slow > 0 &&
           yarn.beta_fast >= yarn.beta_slow;
  }
  return true;
}

/// Rotary positions, and what K3 and DeepSeek-V3 do not share.
template <class Config>
struct CheckedPositions {
  static constexpr bool is_k3 = Config::backbone == Backbone::kimi_k3;
  static_assert(!is_k3 || Config::mla_use_nope,
                "config: mla_use_nope = false is not K3: its attention never rotates the rope slice");
  static_assert(!is_k3 || !has_rope_scaling<Config>(),
                "config: rope_scaling is not K3: its attention has no rotary positions to scale");
  static_assert(is_k3 || !Config::mla_use_nope,
                "config: mla_use_nope = true is not DeepSeek-V3: its attention rotates the rope slice");
  static_assert(is_k3 || !Config::mla_use_output_gate,
                "config: mla_use_output_gate = true is not DeepSeek-V3: its attention has no output gate");
  static_assert(Config::mla_use_nope || Config::qk_rope_head_dim % 2 == 0,
                "config: qk_rope_head_dim must be even: rotary positions turn pairs of elements");
  static_assert(Config::softmax_mscale == SoftmaxMscale::none || has_rope_scaling<Config>(),
                "config: softmax_mscale = yarn_mscale_squared needs a rope_scaling: the factor is YaRN's");
  static_assert(has_sound_rope<Config>(),
                "config: rope_theta must be larger than 1, positions positive, and a rope_scaling's factor at least 1 "
                "and its beta_fast no smaller than its positive beta_slow");
};

/// What latent attention alone looks at.
template <class Given>
struct CheckedAttention : CheckedPositions<complete_attention_t<Given>> {
 private:
  using Config = complete_attention_t<Given>;
  static_assert(Config::num_key_value_heads == Config::num_attention_heads,
                "config: num_key_value_heads must equal num_attention_heads; latent attention has no grouped heads");
  static_assert(Config::num_attention_heads > 0 && Config::qk_nope_head_dim > 0 && Config::qk_rope_head_dim > 0 &&
                    Config::v_head_dim > 0 && Config::kv_lora_rank > 0 && Config::q_lora_rank.value_or(1) > 0,
                "config: head counts and head and latent dims must be positive");
  static_assert(Config::mla_norm_eps > 0, "config: mla_norm_eps must be positive");
};

/// An id that is one of `vocabulary` tokens, or none.
constexpr bool is_token(std::optional<index_t> id, index_t vocabulary) {
  return !id.has_value() || (*id >= 0 && *id < vocabulary);
}

/// Whether all of a config's other_stop_token_ids and its media_token_id, where it has them, are tokens.
template <class Config>
constexpr bool has_sound_stops() {
  bool sound = true;
  if constexpr (requires { Config::other_stop_token_ids; }) {
    for (const index_t id : Config::other_stop_token_ids) sound = sound && is_token(id, Config::vocab_size);
  }
  if constexpr (requires { Config::media_token_id; }) {
    sound = sound && is_token(Config::media_token_id, Config::vocab_size);
  }
  return sound;
}

template <class Config>
constexpr bool has_sound_activation() {
  if constexpr (ActivationFields<Config>) {
    return Config::activation_situ_beta > 0 && Config::activation_situ_linear_beta.value_or(1) > 0;
  }
  return true;
}

template <class Config>
struct CheckedBackbone : CheckedAttention<Config> {
  static_assert(Config::vocab_size > 0 && Config::hidden_size > 0 && Config::intermediate_size > 0,
                "config: vocab_size, hidden_size and intermediate_size must be positive");
  static_assert(Config::rms_norm_eps > 0, "config: rms_norm_eps must be positive");
  static_assert(has_sound_activation<Config>(), "config: activation_situ_beta and its linear one must be positive");
  static_assert(is_token(Config::bos_token_id, Config::vocab_size),
                "config: bos_token_id must be below vocab_size, or none");
  static_assert(is_token(Config::eos_token_id, Config::vocab_size),
                "config: eos_token_id must be below vocab_size, or none");
  static_assert(is_token(Config::pad_token_id, Config::vocab_size),
                "config: pad_token_id must be below vocab_size, or none");
  static_assert(has_sound_stops<Config>(),
                "config: other_stop_token_ids and media_token_id must be below vocab_size, or none");
};

}  // namespace detail

/// Instantiate, or derive from, to refuse configs no target can have.
template <class Given>
struct CheckedTarget : detail::CheckedBackbone<complete_target_t<Given>> {
 private:
  using Config = complete_target_t<Given>;
  static_assert(Config::backbone == Backbone::kimi_k3,
                "config: the target is Kimi K3; DeepSeek-V3 is a draft's backbone");
  static_assert(Config::num_hidden_layers >= 1, "config: num_hidden_layers must be at least 1");
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
  static_assert(Config::num_experts_per_token <= Config::num_experts / Config::num_expert_group * Config::topk_group,
                "config: num_experts_per_token must not be more than the experts of topk_group groups");
  static_assert(Config::moe_intermediate_size > 0 && Config::routed_expert_hidden_size > 0 &&
                    Config::num_shared_experts >= 0,
                "config: an expert's sizes must be positive and num_shared_experts not negative");
  static_assert(Config::routed_scaling_factor > 0 &&
                    Config::routed_scaling_factor <= std::numeric_limits<double>::max(),
                "config: routed_scaling_factor must be positive and finite");
  static_assert(Config::kda_gate_lower_bound.value_or(-1) < 0, "config: kda_gate_lower_bound must be negative or none");
  static_assert(Config::target_mla_norm_eps > 0, "config: target_mla_norm_eps must be positive");
  static_assert(Config::attn_res_block_size.value_or(1) >= 1, "config: attn_res_block_size must be positive or none");
};

/// The same for EAGLE-3 drafts.
template <class Given>
struct CheckedEagle3 : detail::CheckedBackbone<complete_eagle3_t<Given>> {
 private:
  using Config = complete_eagle3_t<Given>;
  static_assert(Config::draft_vocab_size > 0 && Config::draft_vocab_size <= Config::vocab_size,
                "config: draft_vocab_size must be from 1 to vocab_size: the draft can say only what the target can");
  static_assert(Config::num_aux_hidden_states >= 1 && Config::target_hidden_size > 0,
                "config: num_aux_hidden_states and target_hidden_size must be positive");
  static_assert(Config::hidden_size == Config::target_hidden_size || Config::train_embeddings,
                "config: hidden_size must be target_hidden_size, or train_embeddings true: else the embedding is the "
                "target's");
};

/// The same for DFlash drafts.
template <class Given>
struct CheckedDFlash : detail::CheckedBackbone<complete_dflash_t<Given>> {
 private:
  using Config = complete_dflash_t<Given>;
  static_assert(Config::backbone == Backbone::kimi_k3,
                "config: block drafts have Kimi K3's backbone only; no rotary positions of blocks are implemented");
  static_assert(Config::block_size >= 2,
                "config: block_size must be at least 2: a block is an anchor and what follows");
  static_assert(Config::num_draft_layers >= 1 && Config::num_target_layers >= 1 && Config::target_hidden_size > 0,
                "config: num_draft_layers, num_target_layers and target_hidden_size must be positive");
  static_assert(Config::sliding_window.value_or(1) >= 1, "config: sliding_window must be positive or none");
  static_assert(detail::is_token(Config::mask_token_id, Config::vocab_size),
                "config: mask_token_id must be below vocab_size, or none");
};

/// The same for DSpark drafts.
template <class Given>
struct CheckedDSpark : CheckedDFlash<complete_dspark_t<Given>> {
 private:
  using Config = complete_dspark_t<Given>;
  static_assert(Config::markov_rank >= 0, "config: markov_rank must not be negative; 0 is no Markov head");
  static_assert(!Config::confidence_head_with_markov || Config::markov_rank > 0,
                "config: confidence_head_with_markov needs a Markov head, markov_rank > 0");
};

/// The mask token of a block draft.
/// \throws Error unless it is set, in the vocabulary and not a token with a meaning of its own: padding or end of
///         sequence
template <class Config>
index_t check_mask_token() {
  constexpr std::optional<index_t> mask = Config::mask_token_id;
  const auto fail = [](const std::string& found, const std::string& wanted) {
    throw Error("mask_token_id", found, wanted);
  };
  if (!mask) fail("nothing", "a token: the target has none, so each draft picks one");
  const std::string found = std::to_string(mask.value_or(-1));
  if (*mask < 0 || *mask >= Config::vocab_size) fail(found, "0 to " + std::to_string(Config::vocab_size - 1));
  if (mask == Config::pad_token_id) fail(found, "another token than pad_token_id");
  if (mask == Config::eos_token_id) fail(found, "another token than eos_token_id");
  const auto stops = stop_token_ids<Config>();
  if (std::find(stops.begin(), stops.end(), *mask) != stops.end())
    fail(found, "another token than those that end a text");
  return *mask;
}

/// What is to be said of a mask token that can be used but means something else in a prompt; else empty.
template <class Config>
std::string mask_token_warning() {
  if constexpr (requires { Config::media_token_id; }) {
    if (!Config::mask_token_id || Config::mask_token_id != Config::media_token_id) return {};
    return "mask_token_id: " + std::to_string(*Config::mask_token_id) +
           " is media_token_id, too: the draft will not tell a picture from a position to predict";
  }
  return {};
}

}  // namespace K3SPEC_NAMESPACE
