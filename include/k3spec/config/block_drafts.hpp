#pragma once
/// \file
/// Block drafts of Kimi K3 as types: the target's config with what the draft adds or has otherwise.
/// defines: MarkovHeadType, configs::DFlash, configs::DSpark, configs::KimiK3DFlash, configs::KimiK3DSpark,
/// configs::KimiK3TinyDFlash, configs::KimiK3TinyDSpark

#include <k3spec/config/conventions.hpp>
#include <k3spec/config/kimi_k3.hpp>

namespace K3SPEC_NAMESPACE {

/// How DSpark's Markov head makes its latent from the previous token: the token's row alone, that row gated by the
/// hidden state, or a recurrent state over the block.
enum class MarkovHeadType { vanilla, gated, rnn };
template <>
inline constexpr std::array<std::string_view, 3> names_of<MarkovHeadType>{"vanilla", "gated", "rnn"};

namespace configs {
namespace detail {

/// What DFlash and DSpark drafts add to their target's config.
template <class Target>
struct BlockDraft : Target {
  /// Layers of the draft (config.json: num_hidden_layers).
  static constexpr index_t num_draft_layers = 2;
  /// Target layers whose states make the context, one beside the other.
  static constexpr index_t num_target_layers = 3;
  static constexpr index_t target_hidden_size = Target::hidden_size;
  /// Positions of a block that are drafted together.
  static constexpr index_t block_size = 8;
  /// What stands where a token is to be predicted. K3 has no such token: each draft picks one.
  static constexpr std::optional<index_t> mask_token_id = std::nullopt;
  /// A block's positions see those after them, too, unless causal. K3 has no positions: without causality or a window
  /// all masks of a block are one and the same query.
  static constexpr bool block_causal = false;
  /// A query sees context fewer than so many positions before it; none: all of it.
  static constexpr std::optional<index_t> sliding_window = std::nullopt;
};

}  // namespace detail

/// A DFlash draft of any target; derive and hide what is otherwise.
template <class Target>
struct DFlash : detail::BlockDraft<Target> {
  /// As the target's own attention has it.
  static constexpr double mla_norm_eps = Target::target_mla_norm_eps;
};

/// A DSpark draft of any target; derive and hide what is otherwise.
template <class Target>
struct DSpark : detail::BlockDraft<Target> {
  static constexpr index_t block_size = 5;
  /// eps of q_a_layernorm and kv_a_layernorm.
  static constexpr double mla_norm_eps = 1e-5;
  /// Width of the Markov head; 0: no head.
  static constexpr index_t markov_rank = 256;
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::vanilla;
  static constexpr bool enable_confidence_head = true;
  /// The confidence head reads the Markov head's row of the previous token, too.
  static constexpr bool confidence_head_with_markov = true;
  /// Whether embed_tokens and lm_head are trained; they begin as copies of the target's.
  static constexpr bool train_embeddings = false;
};

/// The recipes people run on K3.
struct KimiK3DFlash : DFlash<KimiK3Target> {
  static constexpr index_t block_size = 16;
  static constexpr std::optional<index_t> mask_token_id = 163824;
};
/// DSpark for Kimi K3 in its published size.
struct KimiK3DSpark : DSpark<KimiK3Target> {
  static constexpr index_t num_draft_layers = 3;
  static constexpr std::optional<index_t> mask_token_id = 163824;
};

/// Drafts for the bundled miniature, which has a mask token of its own. Causal and with a window: nothing rotates keys,
/// so else the masks of a block would all be the same query over the same keys, and their slots would say the same.
struct KimiK3TinyDFlash : DFlash<KimiK3TinyTarget> {
  static constexpr std::optional<index_t> mask_token_id = 259;
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 8;
};
/// DSpark for the miniature of Kimi K3.
struct KimiK3TinyDSpark : DSpark<KimiK3TinyTarget> {
  static constexpr std::optional<index_t> mask_token_id = 259;
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 8;
  static constexpr index_t markov_rank = 32;
};

}  // namespace configs
}  // namespace K3SPEC_NAMESPACE
