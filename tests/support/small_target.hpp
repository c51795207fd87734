#pragma once
/// \file
/// A target of six layers with all that K3 has in it, in sizes that fill no register.
/// defines: test::SmallTarget, test::small_target

#include <k3spec/target/k3_target.hpp>

namespace k3spec::test {

struct SmallTarget : configs::KimiK3 {
  static constexpr index_t vocab_size = 51;
  static constexpr index_t hidden_size = 27, target_hidden_size = 27;
  static constexpr index_t intermediate_size = 35;
  static constexpr index_t num_hidden_layers = 6;
  static constexpr std::optional<index_t> bos_token_id = 48, eos_token_id = 49, pad_token_id = 50;
  static constexpr std::optional<index_t> media_token_id = std::nullopt;
  static constexpr std::array<index_t, 0> other_stop_token_ids{};
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 9;
  static constexpr index_t kda_num_heads = 3, kda_head_dim = 8;
  static constexpr std::array<index_t, 2> full_attn_layers{4, 6};
  static constexpr index_t num_experts = 6, num_experts_per_token = 2, num_shared_experts = 1;
  static constexpr index_t moe_intermediate_size = 20, routed_expert_hidden_size = 32;
  static constexpr std::optional<index_t> attn_res_block_size = 3;
  static constexpr index_t draft_vocab_size = 23;
};

template <class T>
Parameters<K3Target<SmallTarget>, T> small_target() {
  Parameters<K3Target<SmallTarget>, T> parameters;
  parameters.initialize(5, 0.3);
  // Sure of itself: an even distribution leaves nothing to learn.
  auto w = parameters.mutable_weights();
  for (index_t i = 0; i < w.lm_head.size(); ++i) w.lm_head.data()[i] = static_cast<T>(5 * w.lm_head.data()[i]);
  return parameters;
}

}  // namespace k3spec::test
