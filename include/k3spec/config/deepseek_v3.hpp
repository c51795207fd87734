#pragma once
/// \file
/// EAGLE-3 drafts with DeepSeek-V3's attention block (arXiv 2412.19437) as types: rotary positions, SwiGLU, no output
/// gate. The target they draft for is another model's; only its sizes stand here.
/// defines: configs::DeepSeekV3Target, configs::DeepSeekV3, configs::DeepSeekV3Tiny, configs::KimiK3Eagle31MLA

#include <optional>

#include <k3spec/config/conventions.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/config/rope_scaling.hpp>

namespace K3SPEC_NAMESPACE {

namespace configs {

/// DeepSeek-V3 as far as a draft for it needs it. Names are those of the checkpoint's config.json.
struct DeepSeekV3Target {
  static constexpr Backbone backbone = Backbone::deepseek_v3;

  static constexpr index_t vocab_size = 129280;
  static constexpr index_t hidden_size = 7168;
  static constexpr index_t intermediate_size = 18432;
  static constexpr double rms_norm_eps = 1e-6;

  static constexpr std::optional<index_t> bos_token_id = 0;
  static constexpr std::optional<index_t> eos_token_id = 1;
  static constexpr std::optional<index_t> pad_token_id = std::nullopt;

  // Multi-head latent attention.
  static constexpr index_t num_attention_heads = 128;
  static constexpr index_t num_key_value_heads = 128;
  /// none: queries come straight from q_proj.
  static constexpr std::optional<index_t> q_lora_rank = 1536;
  static constexpr index_t kv_lora_rank = 512;
  static constexpr index_t qk_nope_head_dim = 128;
  static constexpr index_t qk_rope_head_dim = 64;
  static constexpr index_t v_head_dim = 128;
  static constexpr bool mla_use_nope = false;
  static constexpr bool mla_use_output_gate = false;

  // Rotary positions.
  static constexpr double rope_theta = 10000;
  /// none: plain frequencies. Without effect unless max_position_embeddings is larger than the original.
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 4096};
  static constexpr index_t max_position_embeddings = 163840;
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::none;
};

/// A draft for DeepSeek-V3 in its published size.
struct DeepSeekV3 : Eagle3<DeepSeekV3Target> {
  /// eps of q_a_layernorm and kv_a_layernorm.
  static constexpr double mla_norm_eps = 1e-6;
};

/// A draft with this block for the trained miniature of Kimi K3 (configs::KimiK3Tiny), whose vocabulary it has.
struct DeepSeekV3Tiny : DeepSeekV3 {
  static constexpr index_t vocab_size = 260;
  static constexpr index_t hidden_size = 128;
  static constexpr index_t intermediate_size = 256;
  static constexpr std::optional<index_t> bos_token_id = 256;
  static constexpr std::optional<index_t> eos_token_id = 257;
  static constexpr std::optional<index_t> pad_token_id = 258;
  static constexpr index_t num_attention_heads = 4;
  static constexpr index_t num_key_value_heads = 4;
  static constexpr std::optional<index_t> q_lora_rank = 48;
  static constexpr index_t kv_lora_rank = 32;
  static constexpr index_t qk_nope_head_dim = 16;
  static constexpr index_t qk_rope_head_dim = 8;
  static constexpr index_t v_head_dim = 16;
  static constexpr index_t draft_vocab_size = 64;
  static constexpr index_t target_hidden_size = 128;
};

/// The EAGLE-3.1 draft with this block that is published for Kimi K3, lightseekorg/kimi-k3-eagle3.1-mla: the sizes of
/// its tensors, and what its engines read. Its weights have not been run here.
struct KimiK3Eagle31MLA : DeepSeekV3 {
  static constexpr index_t vocab_size = 163840, draft_vocab_size = 163840;
  static constexpr double rms_norm_eps = 1e-5, mla_norm_eps = 1e-5;
  static constexpr std::optional<index_t> bos_token_id = 163584;
  static constexpr std::optional<index_t> eos_token_id = 163586;
  static constexpr std::optional<index_t> pad_token_id = 163839;
  static constexpr index_t num_attention_heads = 64, num_key_value_heads = 64;
  static constexpr double rope_theta = 50000;
  static constexpr std::optional<Yarn> rope_scaling = Yarn{32, 32, 1, 32768};
  static constexpr index_t max_position_embeddings = 1048576;
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
  static constexpr bool fc_norm = true;
  static constexpr bool norm_output = true;
};

}  // namespace configs
}  // namespace K3SPEC_NAMESPACE
