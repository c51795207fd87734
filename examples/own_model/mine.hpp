#pragma once
#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/change.hpp>

struct Mine : k3spec::configs::KimiK3Target {
  K3SPEC_CHANGE(KimiK3Target, vocab_size, 300);
  K3SPEC_CHANGE(KimiK3Target, hidden_size, 48);
  K3SPEC_CHANGE(KimiK3Target, intermediate_size, 90);
  K3SPEC_CHANGE(KimiK3Target, num_hidden_layers, 5);
  K3SPEC_CHANGE(KimiK3Target, bos_token_id, 256);
  K3SPEC_CHANGE(KimiK3Target, eos_token_id, 257);
  K3SPEC_CHANGE(KimiK3Target, pad_token_id, 258);
  K3SPEC_CHANGE(KimiK3Target, media_token_id, std::nullopt);
  K3SPEC_CHANGE(KimiK3Target, other_stop_token_ids, std::array<k3spec::index_t, 0>{});
  K3SPEC_CHANGE(KimiK3Target, num_attention_heads, 3);
  K3SPEC_CHANGE(KimiK3Target, num_key_value_heads, 3);
  K3SPEC_CHANGE(KimiK3Target, q_lora_rank, 22);
  K3SPEC_CHANGE(KimiK3Target, kv_lora_rank, 18);
  K3SPEC_CHANGE(KimiK3Target, qk_nope_head_dim, 10);
  K3SPEC_CHANGE(KimiK3Target, qk_rope_head_dim, 6);
  K3SPEC_CHANGE(KimiK3Target, v_head_dim, 12);
  K3SPEC_CHANGE(KimiK3Target, kda_num_heads, 3);
  K3SPEC_CHANGE(KimiK3Target, kda_head_dim, 14);
  K3SPEC_CHANGE(KimiK3Target, full_attn_layers, std::array<k3spec::index_t, 2>{4, 5});
  K3SPEC_CHANGE(KimiK3Target, num_experts, 6);
  K3SPEC_CHANGE(KimiK3Target, num_experts_per_token, 2);
  K3SPEC_CHANGE(KimiK3Target, num_shared_experts, 1);
  K3SPEC_CHANGE(KimiK3Target, moe_intermediate_size, 38);
  K3SPEC_CHANGE(KimiK3Target, routed_expert_hidden_size, 26);
  K3SPEC_CHANGE(KimiK3Target, attn_res_block_size, 3);
};
struct MineEagle3 : k3spec::configs::Eagle3<Mine> {
  K3SPEC_CHANGE(Eagle3, draft_vocab_size, 100);
};
struct MineDSpark : k3spec::configs::DSpark<Mine> {
  K3SPEC_CHANGE(DSpark, mask_token_id, 259);
  K3SPEC_CHANGE(DSpark, block_causal, true);
  K3SPEC_CHANGE(DSpark, sliding_window, 8);
  K3SPEC_CHANGE(DSpark, markov_rank, 18);
};
