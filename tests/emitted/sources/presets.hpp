#pragma once
/// \file
/// The configs that are written as JSON, emitted as C++ and held against what they were: all presets, and odd ones.
/// defines: test::OddTarget, test::LeastTarget, test::OddDSpark, test::Scaled, test::Unscaled, EMITTED_TARGETS,
/// EMITTED_DRAFTS

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/config/eagle3_1.hpp>

namespace k3spec::test {

/// What may be none is none, and no size is a preset's.
struct OddTarget : configs::KimiK3Target {
  static constexpr index_t vocab_size = 51, hidden_size = 27, intermediate_size = 35, num_hidden_layers = 5;
  static constexpr double rms_norm_eps = 1e-6, activation_situ_beta = 0.1;
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
  static constexpr std::optional<index_t> bos_token_id = std::nullopt, eos_token_id = 49, pad_token_id = 0;
  static constexpr std::array<index_t, 2> other_stop_token_ids{50, 3};
  static constexpr std::optional<index_t> media_token_id = 48, q_lora_rank = std::nullopt;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3, kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 9;
  static constexpr bool mla_use_output_gate = false, kda_use_full_rank_gate = false;
  static constexpr index_t kda_num_heads = 2, kda_head_dim = 8, kda_conv_size = 3;
  static constexpr std::optional<double> kda_gate_lower_bound = std::nullopt;
  static constexpr std::array<index_t, 2> full_attn_layers{1, 4};
  static constexpr index_t num_experts = 6, num_experts_per_token = 2, num_shared_experts = 0;
  static constexpr index_t moe_intermediate_size = 20, routed_expert_hidden_size = 32;
  static constexpr bool latent_moe_use_norm = false, moe_renormalize = false;
  static constexpr double routed_scaling_factor = 2.446;
  static constexpr index_t num_expert_group = 3, topk_group = 2, first_k_dense_replace = 2, moe_layer_freq = 2;
  static constexpr std::optional<index_t> attn_res_block_size = std::nullopt;
};

/// One layer, and a vocabulary in which each token has a meaning.
struct LeastTarget : OddTarget {
  static constexpr index_t vocab_size = 3, num_hidden_layers = 1;
  static constexpr std::optional<index_t> bos_token_id = 0, eos_token_id = 1, pad_token_id = 2;
  static constexpr std::optional<index_t> media_token_id = std::nullopt;
  static constexpr std::array<index_t, 0> other_stop_token_ids{}, full_attn_layers{};
};

struct OddDSpark : configs::DSpark<OddTarget> {
  static constexpr std::optional<index_t> mask_token_id = 2, sliding_window = 7;
  static constexpr index_t num_draft_layers = 1, num_target_layers = 2, block_size = 3, markov_rank = 4;
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::rnn;
  static constexpr bool confidence_head_with_markov = false, train_embeddings = true, block_causal = true;
};

struct Scaled : configs::Eagle31<configs::DeepSeekV3Tiny> {
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
  static constexpr std::optional<Yarn> rope_scaling = Yarn{2.5, 16, 0.5, 4096, 0.7, 0.3};
  static constexpr double rope_theta = 50000;
};

struct Unscaled : configs::DeepSeekV3Tiny {
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
  static constexpr index_t num_aux_hidden_states = 1, max_position_embeddings = 77;
};

}  // namespace k3spec::test

// f(config, name) for each; names are those that are emitted.
#define EMITTED_TARGETS(f)                                                                             \
  f(configs::KimiK3Target, K3) f(configs::KimiK3SmallTarget, Small) f(configs::KimiK3TinyTarget, Tiny) \
      f(test::OddTarget, Odd) f(test::LeastTarget, Least)

// f(kind, config, name), and the layers that such a draft reads.
#define EMITTED_DRAFTS(f)                                                                                             \
  f(eagle3, configs::KimiK3Eagle31MLA, K3MLA) f(eagle3, configs::KimiK3, K3Draft)                                     \
      f(eagle3, configs::KimiK3Small, SmallDraft) f(eagle3, configs::KimiK3Tiny, TinyDraft)                           \
          f(eagle3, configs::Eagle31<configs::KimiK3>, K3Draft31) f(eagle3, configs::DeepSeekV3, DeepSeek)            \
              f(eagle3, configs::DeepSeekV3Tiny, DeepSeekTiny) f(eagle3, test::Scaled, DeepSeekScaled)                \
                  f(eagle3, test::Unscaled, DeepSeekUnscaled) f(dflash, configs::KimiK3DFlash, K3DFlashDraft)         \
                      f(dflash, configs::KimiK3TinyDFlash, TinyFlash) f(dspark, configs::KimiK3DSpark, K3DSparkDraft) \
                          f(dspark, configs::KimiK3TinyDSpark, TinySpark) f(dspark, test::OddDSpark, OddSpark)
