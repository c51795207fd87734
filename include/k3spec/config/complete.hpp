#pragma once
/// \file
/// Whether a config has the fields that a draft, a layer or a target reads, each of its type. What is made of a config
/// goes by complete_…_t of it: where a field is missing, that is said in one sentence whose note names the field, and a
/// stand-in takes the config's place, so that nothing else is said.
/// defines: ActivationFields, AttentionFields, BackboneFields, TargetFields, Eagle3Fields, BlockFields, MarkovFields,
/// ConfidenceFields, DSparkFields, complete_activation_t, complete_attention_t, complete_target_t, complete_eagle3_t,
/// complete_dflash_t, complete_dspark_t, complete_markov_t, complete_confidence_t, stands_in, and ForAttention to
/// ForConfidence, which templates ask of a config

#include <array>
#include <concepts>
#include <iterator>
#include <optional>
#include <type_traits>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/config/rope_scaling.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

// clang-format off
template <class V> concept Count = std::integral<std::remove_cvref_t<V>> && !std::same_as<std::remove_cvref_t<V>, bool>;
template <class V> concept Number = std::floating_point<std::remove_cvref_t<V>> || Count<V>;
template <class V, class Type> concept Exactly = std::same_as<std::remove_cvref_t<V>, Type>;
template <class V> concept Flag = Exactly<V, bool>;
template <class V> concept MaybeCount = Exactly<V, std::optional<index_t>>;
template <class V> concept MaybeNumber = Exactly<V, std::optional<double>>;
template <class V> concept Counts = requires(V& list) { { *std::begin(list) } -> Count; };

template <class C> concept RotaryFields =
    requires { { C::rope_theta } -> Number; } &&
    requires { { C::rope_scaling } -> Exactly<std::optional<Yarn>>; } &&
    requires { { C::max_position_embeddings } -> Count; };
// clang-format on

}  // namespace detail

// clang-format off
/// What Kimi K3's activation reads.
template <class C> concept ActivationFields =
    requires { { C::activation_situ_beta } -> detail::Number; } &&
    requires { { C::activation_situ_linear_beta } -> detail::MaybeNumber; };

/// What latent attention reads.
template <class C> concept AttentionFields =
    requires { { C::backbone } -> detail::Exactly<Backbone>; } &&
    requires { { C::hidden_size } -> detail::Count; } &&
    requires { { C::num_attention_heads } -> detail::Count; } &&
    requires { { C::num_key_value_heads } -> detail::Count; } &&
    requires { { C::q_lora_rank } -> detail::MaybeCount; } &&
    requires { { C::kv_lora_rank } -> detail::Count; } &&
    requires { { C::qk_nope_head_dim } -> detail::Count; } &&
    requires { { C::qk_rope_head_dim } -> detail::Count; } &&
    requires { { C::v_head_dim } -> detail::Count; } &&
    requires { { C::mla_use_nope } -> detail::Flag; } &&
    requires { { C::mla_use_output_gate } -> detail::Flag; } &&
    requires { { C::mla_norm_eps } -> detail::Number; } &&
    requires { { C::softmax_mscale } -> detail::Exactly<SoftmaxMscale>; } &&
    (C::backbone == Backbone::kimi_k3 || C::mla_use_nope || detail::RotaryFields<C>);

/// What the target and drafts share.
template <class C> concept BackboneFields =
    AttentionFields<C> &&
    requires { { C::vocab_size } -> detail::Count; } &&
    requires { { C::intermediate_size } -> detail::Count; } &&
    requires { { C::rms_norm_eps } -> detail::Number; } &&
    requires { { C::bos_token_id } -> detail::MaybeCount; } &&
    requires { { C::eos_token_id } -> detail::MaybeCount; } &&
    requires { { C::pad_token_id } -> detail::MaybeCount; } &&
    (C::backbone == Backbone::deepseek_v3 || ActivationFields<C>);

/// A config with all that a target is built from.
template <class C> concept TargetFields =
    BackboneFields<C> &&
    requires { { C::num_hidden_layers } -> detail::Count; } &&
    requires { { C::kda_num_heads } -> detail::Count; } &&
    requires { { C::kda_head_dim } -> detail::Count; } &&
    requires { { C::kda_conv_size } -> detail::Count; } &&
    requires { { C::kda_gate_lower_bound } -> detail::MaybeNumber; } &&
    requires { { C::kda_use_full_rank_gate } -> detail::Flag; } &&
    requires { { C::full_attn_layers } -> detail::Counts; } &&
    requires { { C::num_experts } -> detail::Count; } &&
    requires { { C::num_experts_per_token } -> detail::Count; } &&
    requires { { C::num_shared_experts } -> detail::Count; } &&
    requires { { C::moe_intermediate_size } -> detail::Count; } &&
    requires { { C::routed_expert_hidden_size } -> detail::Count; } &&
    requires { { C::latent_moe_use_norm } -> detail::Flag; } &&
    requires { { C::moe_renormalize } -> detail::Flag; } &&
    requires { { C::routed_scaling_factor } -> detail::Number; } &&
    requires { { C::num_expert_group } -> detail::Count; } &&
    requires { { C::topk_group } -> detail::Count; } &&
    requires { { C::first_k_dense_replace } -> detail::Count; } &&
    requires { { C::moe_layer_freq } -> detail::Count; } &&
    requires { { C::attn_res_block_size } -> detail::MaybeCount; } &&
    requires { { C::target_mla_norm_eps } -> detail::Number; };

/// A config with all that an EAGLE-3 draft is built from.
template <class C> concept Eagle3Fields =
    BackboneFields<C> &&
    requires { { C::draft_vocab_size } -> detail::Count; } &&
    requires { { C::num_aux_hidden_states } -> detail::Count; } &&
    requires { { C::target_hidden_size } -> detail::Count; } &&
    requires { { C::fc_norm } -> detail::Flag; } &&
    requires { { C::norm_output } -> detail::Flag; } &&
    requires { { C::train_embeddings } -> detail::Flag; };

/// What DFlash and DSpark drafts share.
template <class C> concept BlockFields =
    BackboneFields<C> &&
    requires { { C::num_draft_layers } -> detail::Count; } &&
    requires { { C::num_target_layers } -> detail::Count; } &&
    requires { { C::target_hidden_size } -> detail::Count; } &&
    requires { { C::block_size } -> detail::Count; } &&
    requires { { C::mask_token_id } -> detail::MaybeCount; } &&
    requires { { C::block_causal } -> detail::Flag; } &&
    requires { { C::sliding_window } -> detail::MaybeCount; };

/// What a Markov head reads of a DSpark draft's config.
template <class C> concept MarkovFields =
    requires { { C::hidden_size } -> detail::Count; } &&
    requires { { C::vocab_size } -> detail::Count; } &&
    requires { { C::markov_rank } -> detail::Count; } &&
    requires { { C::markov_head_type } -> detail::Exactly<MarkovHeadType>; };

/// What a confidence head reads of it.
template <class C> concept ConfidenceFields =
    requires { { C::hidden_size } -> detail::Count; } &&
    requires { { C::markov_rank } -> detail::Count; } &&
    requires { { C::confidence_head_with_markov } -> detail::Flag; };

/// A config with all that a DSpark draft is built from.
template <class C> concept DSparkFields =
    BlockFields<C> && MarkovFields<C> && ConfidenceFields<C> &&
    requires { { C::enable_confidence_head } -> detail::Flag; } &&
    requires { { C::train_embeddings } -> detail::Flag; };
// clang-format on

namespace detail {

/// Has every field that anything reads.
struct StandIn : configs::Eagle3<configs::KimiK3TinyDSpark> {
  static constexpr index_t draft_vocab_size = 64;
};

template <class C>
struct CompleteActivation {
  using type = std::conditional_t<ActivationFields<C>, C, StandIn>;
  static_assert(ActivationFields<C>,
                "config: a field that SiTU reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteAttention {
  using type = std::conditional_t<AttentionFields<C>, C, StandIn>;
  static_assert(AttentionFields<C>,
                "config: a field that latent attention reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteTarget {
  using type = std::conditional_t<TargetFields<C>, C, StandIn>;
  static_assert(TargetFields<C>,
                "config: a field that a target reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteEagle3 {
  using type = std::conditional_t<Eagle3Fields<C>, C, StandIn>;
  static_assert(Eagle3Fields<C>,
                "config: a field that an EAGLE-3 draft reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteDFlash {
  using type = std::conditional_t<BlockFields<C>, C, StandIn>;
  static_assert(BlockFields<C>,
                "config: a field that a DFlash draft reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteDSpark {
  using type = std::conditional_t<DSparkFields<C>, C, StandIn>;
  static_assert(DSparkFields<C>,
                "config: a field that a DSpark draft reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteMarkov {
  using type = std::conditional_t<MarkovFields<C>, C, StandIn>;
  static_assert(MarkovFields<C>,
                "config: a field that a Markov head reads is missing, misspelt or of another type (see the note)");
};
template <class C>
struct CompleteConfidence {
  using type = std::conditional_t<ConfidenceFields<C>, C, StandIn>;
  static_assert(ConfidenceFields<C>,
                "config: a field that a confidence head reads is missing, misspelt or of another type (see the note)");
};

#ifdef __clang__
inline constexpr bool clang = true;
#else
inline constexpr bool clang = false;
#endif

}  // namespace detail

// What templates ask of a config. With g++ everything: behind a failed static_assert it goes on with the stand-in.
// clang takes a class with a failed one for no class, and complains of each mention of it: there the fields are a
// constraint.
// clang-format off
/// The fields for attention, under clang.
template <class C> concept ForAttention = !detail::clang || AttentionFields<C>;
/// The fields for a target, under clang.
template <class C> concept ForTarget = !detail::clang || TargetFields<C>;
/// The fields for an EAGLE-3 draft, under clang.
template <class C> concept ForEagle3 = !detail::clang || Eagle3Fields<C>;
/// The fields for a DFlash draft, under clang.
template <class C> concept ForDFlash = !detail::clang || BlockFields<C>;
/// The fields for a DSpark draft, under clang.
template <class C> concept ForDSpark = !detail::clang || DSparkFields<C>;
/// The fields for a Markov head, under clang.
template <class C> concept ForMarkov = !detail::clang || MarkovFields<C>;
/// The fields for a confidence head, under clang.
template <class C> concept ForConfidence = !detail::clang || ConfidenceFields<C>;
// clang-format on

template <class C>
using complete_activation_t = typename detail::CompleteActivation<C>::type;
template <class C>
using complete_attention_t = typename detail::CompleteAttention<C>::type;
template <class C>
using complete_target_t = typename detail::CompleteTarget<C>::type;
template <class C>
using complete_eagle3_t = typename detail::CompleteEagle3<C>::type;
template <class C>
using complete_dflash_t = typename detail::CompleteDFlash<C>::type;
template <class C>
using complete_dspark_t = typename detail::CompleteDSpark<C>::type;
template <class C>
using complete_markov_t = typename detail::CompleteMarkov<C>::type;
template <class C>
using complete_confidence_t = typename detail::CompleteConfidence<C>::type;

/// Whether a complete_…_t is not the config that was given. Then it need not agree with another one.
template <class C>
inline constexpr bool stands_in = std::derived_from<C, detail::StandIn>;

}  // namespace K3SPEC_NAMESPACE
