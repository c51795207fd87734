#pragma once
/// \file
/// The configs of tests/data/cases/target* and of their odd-sized twins.
/// defines: test::Case, test::OddCase, test::NoResidualMixing, test::LowRankGateSoftplus, test::GroupedRouting

#include <array>

#include <k3spec/config/kimi_k3.hpp>

namespace k3spec::test {

struct Case : configs::KimiK3 {
  static constexpr const char* folder = "cases/";
  static constexpr index_t vocab_size = 64;
  static constexpr index_t hidden_size = 32;
  static constexpr index_t intermediate_size = 48;
  static constexpr index_t num_hidden_layers = 6;
  static constexpr index_t num_attention_heads = 4;
  static constexpr index_t num_key_value_heads = 4;
  static constexpr std::optional<index_t> q_lora_rank = 16;
  static constexpr index_t kv_lora_rank = 8;
  static constexpr index_t qk_nope_head_dim = 8;
  static constexpr index_t qk_rope_head_dim = 4;
  static constexpr index_t v_head_dim = 6;
  static constexpr index_t kda_num_heads = 3;
  static constexpr index_t kda_head_dim = 8;
  static constexpr std::array<index_t, 2> full_attn_layers{4, 6};
  static constexpr index_t num_experts = 6;
  static constexpr index_t num_experts_per_token = 2;
  static constexpr index_t num_shared_experts = 2;
  static constexpr index_t moe_intermediate_size = 20;
  static constexpr index_t routed_expert_hidden_size = 32;
  static constexpr double routed_scaling_factor = 1.5;
  static constexpr std::optional<index_t> attn_res_block_size = 3;
};

struct OddCase : Case {
  static constexpr const char* folder = "cases_odd/";
  static constexpr index_t vocab_size = 51;
  static constexpr index_t hidden_size = 27;
  static constexpr index_t intermediate_size = 35;
  static constexpr index_t num_attention_heads = 3;
  static constexpr index_t num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5;
  static constexpr index_t qk_rope_head_dim = 3;
  static constexpr index_t v_head_dim = 9;
};

template <class Base>
struct NoResidualMixing : Base {
  static constexpr std::optional<index_t> attn_res_block_size = std::nullopt;
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};

template <class Base>
struct LowRankGateSoftplus : Base {
  static constexpr bool kda_use_full_rank_gate = false;
  static constexpr std::optional<double> kda_gate_lower_bound = std::nullopt;
  static constexpr index_t num_shared_experts = 0;
  static constexpr bool latent_moe_use_norm = false;
};

template <class Base>
struct GroupedRouting : Base {
  static constexpr index_t num_expert_group = 3;
  static constexpr index_t topk_group = 2;
};

}  // namespace k3spec::test
