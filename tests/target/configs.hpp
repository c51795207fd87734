#pragma once
/// \file
/// The configs of tests/data/cases/target* and of their odd-sized twins.
/// defines: test::Case, test::OddCase, test::NoResidualMixing, test::LowRankGateSoftplus, test::GroupedRouting

#include <array>

#include "tests/support/case_configs.hpp"

namespace k3spec::test {

/// What make_cases.py adds to the sizes of a set for a whole target.
template <class Sizes>
struct TargetSizes : Sizes {
  static constexpr index_t num_hidden_layers = 6;
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
using Case = TargetSizes<EvenCases>;
using OddCase = TargetSizes<OddCases>;

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
