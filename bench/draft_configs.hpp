#pragma once
/// \file
/// The sizes at which training steps are compared with other programs.
/// defines: bench::Words, bench::Eagle3Small, bench::Eagle3Wide, bench::Eagle3K3, bench::Eagle3Vocabulary, bench::DFlashSmall,
///          bench::DSparkSmall, bench::add_config

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/kimi_k3.hpp>

#include "worker.hpp"

namespace k3spec::bench {

using configs::DFlash, configs::DSpark, configs::Eagle3, configs::KimiK3SmallTarget, configs::KimiK3Target,
    configs::KimiK3TinyTarget;

/// A target whose vocabulary is of another size, with no token that means something.
template <class Target, index_t Vocabulary>
struct Words : Target {
  static constexpr index_t vocab_size = Vocabulary;
  static constexpr std::optional<index_t> bos_token_id = std::nullopt;
  static constexpr std::optional<index_t> eos_token_id = std::nullopt;
  static constexpr std::array<index_t, 0> other_stop_token_ids{};
  static constexpr std::optional<index_t> pad_token_id = std::nullopt;
  static constexpr std::optional<index_t> media_token_id = std::nullopt;
};

/// The public miniature's widths: 25 M parameters, 18 M of them the frozen embedding's.
struct Eagle3Small : Eagle3<Words<KimiK3SmallTarget, 34816>> {
  static constexpr index_t draft_vocab_size = 8192;
};

/// As wide, with K3's heads, eight of them, and an MLP that brings what is trained to 25 M.
struct Eagle3Wide : Eagle3<Words<KimiK3SmallTarget, 9216>> {
  static constexpr index_t draft_vocab_size = 8192;
  static constexpr index_t intermediate_size = 10752;
  static constexpr index_t num_attention_heads = 8;
  static constexpr index_t num_key_value_heads = 8;
  static constexpr std::optional<index_t> q_lora_rank = 384;
  static constexpr index_t kv_lora_rank = 256;
  static constexpr index_t qk_nope_head_dim = 128;
  static constexpr index_t qk_rope_head_dim = 64;
  static constexpr index_t v_head_dim = 128;
};

/// K3's own widths. The embedding, which is only read, is cut to what the draft can say and an eighth more.
struct Eagle3K3 : Eagle3<Words<KimiK3Target, 36000>> {};

/// k3-tiny's widths with another draft vocabulary.
template <index_t Vocabulary>
struct Eagle3Vocabulary : Eagle3<Words<KimiK3TinyTarget, Vocabulary + Vocabulary / 8>> {
  static constexpr index_t draft_vocab_size = Vocabulary;
};

/// The public miniature's widths, in drafts of blocks.
struct DFlashSmall : DFlash<Words<KimiK3SmallTarget, 8192>> {
  static constexpr std::optional<index_t> mask_token_id = 8191;
};
struct DSparkSmall : DSpark<Words<KimiK3SmallTarget, 8192>> {
  static constexpr std::optional<index_t> mask_token_id = 8191;
};

/// What the other program has to know of a config.
template <class C>
void add_config(Json& json) {
  json.add("hidden_size", C::hidden_size).add("intermediate_size", C::intermediate_size);
  json.add("vocab_size", C::vocab_size).add("num_attention_heads", C::num_attention_heads);
  json.add("q_lora_rank", C::q_lora_rank).add("kv_lora_rank", C::kv_lora_rank);
  json.add("qk_nope_head_dim", C::qk_nope_head_dim).add("qk_rope_head_dim", C::qk_rope_head_dim);
  json.add("v_head_dim", C::v_head_dim).add("rms_norm_eps", C::rms_norm_eps).add("mla_norm_eps", C::mla_norm_eps);
  json.add("situ_beta", C::activation_situ_beta).add("situ_linear_beta", C::activation_situ_linear_beta);
  if constexpr (requires { C::draft_vocab_size; }) json.add("draft_vocab_size", C::draft_vocab_size);
  if constexpr (requires { C::block_size; }) {
    json.add("num_draft_layers", C::num_draft_layers).add("num_target_layers", C::num_target_layers);
    json.add("block_size", C::block_size).add("mask_token_id", C::mask_token_id);
    json.add("block_causal", C::block_causal).add("sliding_window", C::sliding_window);
  }
  if constexpr (requires { C::markov_rank; }) json.add("markov_rank", C::markov_rank);
}

}  // namespace k3spec::bench
