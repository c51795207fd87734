#pragma once
/// \file
/// Small models whose calls are given wrong extents.
/// defines: refusals::Small, refusals::Dflash, refusals::Dspark, refusals::Eagle3,
///          refusals::DeepSeek, refusals::Target,
///          refusals::Both, refusals::both

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/core/parameters.hpp>

namespace k3spec::refusals {

template <class Preset>
struct Small : Preset {
  static constexpr index_t vocab_size = 23, draft_vocab_size = 6;
  static constexpr index_t hidden_size = 8, target_hidden_size = 8, intermediate_size = 6;
  static constexpr std::optional<index_t> bos_token_id = 19, eos_token_id = 20, pad_token_id = 21, mask_token_id = 22;
  static constexpr index_t num_attention_heads = 2, num_key_value_heads = 2;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 4, qk_nope_head_dim = 3, qk_rope_head_dim = 2, v_head_dim = 3;
  static constexpr index_t num_draft_layers = 1, num_target_layers = 2, block_size = 3, markov_rank = 4;
};
struct Dflash : Small<configs::KimiK3TinyDFlash> {};
struct Dspark : Small<configs::KimiK3TinyDSpark> {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::rnn;
};
struct Eagle3 : Small<configs::KimiK3Tiny> {
  static constexpr bool fc_norm = true, norm_output = false;
  static constexpr index_t num_aux_hidden_states = 2;
};
struct DeepSeek : Small<configs::DeepSeekV3Tiny> {};
/// Two layers, one of each kind.
struct Target : Small<configs::KimiK3Tiny> {
  static constexpr index_t num_hidden_layers = 2;
  static constexpr std::array<index_t, 1> full_attn_layers{2};
  static constexpr index_t kda_num_heads = 2, kda_head_dim = 4;
  static constexpr index_t first_k_dense_replace = 1, num_experts = 4, num_experts_per_token = 2;
  static constexpr index_t num_shared_experts = 1, moe_intermediate_size = 6, routed_expert_hidden_size = 4;
  static constexpr std::optional<index_t> attn_res_block_size = 1;
};

/// Parameters and gradients of a layer, all there.
template <class Layer, class T = float>
struct Both {
  Parameters<Layer, T> parameters;
  Gradients<Layer, T> gradients;

  auto w() const { return parameters.weights(); }
  auto d_w() { return gradients.weights(); }
};

/// One for all calls: nothing looks at what is in it.
template <class Layer>
Both<Layer>& both() {
  static Both<Layer> all = [] {
    Both<Layer> b;
    b.parameters.initialize(1);
    return b;
  }();
  return all;
}

}  // namespace k3spec::refusals
