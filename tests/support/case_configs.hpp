#pragma once
/// \file
/// The reference cases' sizes as config types: an even set and an odd one.
/// defines: test::NoSpecialTokens, test::EvenCases, test::OddCases, test::DeepSeekCases, test::DeepSeekEvenCases, test::DeepSeekOddCases,
/// test::yarn_of_cases, test::parity_tolerance

#include <array>
#include <optional>

#include <k3spec/config/deepseek_v3.hpp>

namespace k3spec::test {

/// A config without tokens of a meaning of their own: its vocabulary is too small for its base's.
template <class Base>
struct NoSpecialTokens : Base {
  static constexpr std::optional<index_t> bos_token_id = std::nullopt, eos_token_id = std::nullopt;
  static constexpr std::optional<index_t> pad_token_id = std::nullopt, media_token_id = std::nullopt;
  static constexpr std::array<index_t, 0> other_stop_token_ids{};
};

/// tests/data/cases
struct EvenCases : NoSpecialTokens<configs::KimiK3> {
  static constexpr const char* folder = "cases/";
  static constexpr index_t vocab_size = 64;
  static constexpr index_t hidden_size = 32, target_hidden_size = 32;
  static constexpr index_t intermediate_size = 48;
  static constexpr std::optional<index_t> pad_token_id = 0;
  static constexpr index_t num_attention_heads = 4, num_key_value_heads = 4;
  static constexpr std::optional<index_t> q_lora_rank = 16;
  static constexpr index_t kv_lora_rank = 8;
  static constexpr index_t qk_nope_head_dim = 8, qk_rope_head_dim = 4, v_head_dim = 6;
  static constexpr index_t draft_vocab_size = 40;
  static constexpr bool train_embeddings = true;
};

/// tests/data/cases_odd
struct OddCases : NoSpecialTokens<configs::KimiK3> {
  static constexpr const char* folder = "cases_odd/";
  static constexpr index_t vocab_size = 51;
  static constexpr index_t hidden_size = 27, target_hidden_size = 27;
  static constexpr index_t intermediate_size = 35;
  static constexpr std::optional<index_t> pad_token_id = 0;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 9;
  static constexpr index_t draft_vocab_size = 40;
  static constexpr bool train_embeddings = true;
};

/// The same sizes for DeepSeek-V3's block: what differs from `Cases` is what the backbone is.
template <class Cases>
struct DeepSeekCases : Cases {
  static constexpr Backbone backbone = Backbone::deepseek_v3;
  static constexpr bool mla_use_nope = false, mla_use_output_gate = false;
  static constexpr double rope_theta = 10000;
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
  static constexpr index_t max_position_embeddings = 64;
};
using DeepSeekEvenCases = DeepSeekCases<EvenCases>;
/// An odd slice cannot be rotated.
struct DeepSeekOddCases : DeepSeekCases<OddCases> {
  static constexpr index_t qk_rope_head_dim = 6;
};

/// The YaRN of the cases that have one.
inline constexpr Yarn yarn_of_cases{4, 32, 1, 16};

/// The tolerance that a type's parity is held to. bfloat16: of the tensors on the way to any result of these cases at
/// most 12 are stored (operands too), each off by no more than 2⁻⁹; twice that where terms cancel.
template <class T>
inline constexpr double parity_tolerance = std::is_same_v<T, double> ? 1e-10
                                                                     : (std::is_same_v<T, float> ? 2e-5 : 24 * 0x1p-9);

}  // namespace k3spec::test
