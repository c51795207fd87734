#pragma once
/// \file
/// A block draft of sizes that are all different.
/// defines: test::SmallBlocks

#include <tests/support/case_configs.hpp>
#include <k3spec/config/block_drafts.hpp>

namespace k3spec::test {

struct SmallBlocks : NoSpecialTokens<configs::KimiK3DFlash> {
  static constexpr index_t vocab_size = 23, hidden_size = 9, target_hidden_size = 7, intermediate_size = 13;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
  static constexpr index_t num_draft_layers = 2, num_target_layers = 2, block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 22;
};

}  // namespace k3spec::test
