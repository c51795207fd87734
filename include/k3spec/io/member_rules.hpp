#pragma once
/// \file
/// What a config type must not say (config/check.hpp), asked of members that are still to be written: a file that
/// breaks a rule is refused before there is a header that does not compile.
/// defines: io::detail::check_members

#include <initializer_list>
#include <string>
#include <string_view>

#include <k3spec/io/config_members.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// The rules, asked one by one; what breaks one is noted.
struct MemberRules {
  FieldComparison& fields;
  const ConfigMembers& members;

  /// Notes a member unless it is none or `sound(its value)`.
  template <class F>
  void ask(std::string_view name, F&& sound, const std::string& wanted) const {
    for (const auto& member : members.all) {
      if (member.name != name || member.found.is_null() || sound(member.found)) continue;
      fields.note(member.field, field_text(member.found), wanted);
    }
  }
  void at_least(index_t least, std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      ask(
          name, [&](const json& x) { return x.get<index_t>() >= least; }, "at least " + std::to_string(least));
    }
  }
  void above_zero(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      ask(
          name, [](const json& x) { return x.get<double>() > 0; }, "more than 0");
    }
  }
  /// At most what another member says, where that is there.
  void at_most(const char* name, const std::optional<index_t>& most, const std::string& what) const {
    if (!most) return;
    ask(
        name, [&](const json& x) { return x.get<index_t>() <= *most; }, "at most " + std::to_string(*most) + what);
  }
  void is(const char* name, const json& wanted, const std::string& why) const {
    if (wanted.is_null()) return;
    ask(
        name, [&](const json& x) { return x == wanted; }, field_text(wanted) + why);
  }
};

/// What latent attention and tokens ask, of targets and drafts alike.
inline void check_backbone_members(const MemberRules& rules, Backbone backbone) {
  const bool k3 = backbone == Backbone::kimi_k3;
  rules.at_least(1, {"vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "qk_nope_head_dim",
                     "qk_rope_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank", "max_position_embeddings"});
  rules.above_zero({"rms_norm_eps", "mla_norm_eps", "activation_situ_beta", "activation_situ_linear_beta"});
  rules.is("num_key_value_heads", rules.members.find("num_attention_heads"), ", the number of attention heads");
  rules.is("mla_use_nope", k3, k3 ? ": Kimi K3 rotates nothing" : ": DeepSeek-V3 rotates the rope slice");
  if (!k3) {
    rules.is("mla_use_output_gate", false, ": DeepSeek-V3's attention has no gate");
    rules.ask(
        "qk_rope_head_dim", [](const json& x) { return x.get<index_t>() % 2 == 0; }, "an even number");
    rules.ask(
        "rope_theta", [](const json& x) { return x.get<double>() > 1; }, "more than 1");
  }
  const auto vocabulary = rules.members.number("vocab_size");
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id"}) {
    rules.at_least(0, {token});
    if (vocabulary) rules.at_most(token, *vocabulary - 1, ", a token");
  }
}

/// What the layers and experts of a target ask.
inline void check_target_members(const MemberRules& rules) {
  rules.at_least(1, {"num_hidden_layers", "kda_num_heads", "kda_head_dim", "kda_conv_size", "num_experts",
                     "num_experts_per_token", "num_expert_group", "topk_group", "moe_layer_freq",
                     "moe_intermediate_size", "routed_expert_hidden_size", "attn_res_block_size"});
  rules.at_least(0, {"num_shared_experts", "first_k_dense_replace"});
  rules.above_zero({"routed_scaling_factor"});
  rules.ask(
      "kda_gate_lower_bound", [](const json& x) { return x.get<double>() < 0; }, "less than 0, or null");
  rules.ask(
      "full_attn_layers",
      [](const json& x) {
        index_t before = 0;
        for (const json& id : x) {
          if (id.get<index_t>() <= before) return false;
          before = id.get<index_t>();
        }
        return true;
      },
      "layers in ascending order, counted from 1");
  const auto experts = rules.members.number("num_experts"), groups = rules.members.number("num_expert_group");
  const auto chosen = rules.members.number("topk_group");
  rules.at_most("topk_group", groups, ", num_expert_group");
  if (!experts || !groups || *groups < 1 || *experts < 1) return;
  rules.ask(
      "num_expert_group", [&](const json& x) { return *experts % x.get<index_t>() == 0; }, "a divisor of num_experts");
  if (chosen && *chosen <= *groups) {
    rules.at_most("num_experts_per_token", *experts / *groups * *chosen, ", the experts of topk_group groups");
  }
}

/// What a draft asks beside its backbone.
inline void check_draft_members(const MemberRules& rules, DraftKind kind) {
  rules.at_least(1, {"draft_vocab_size", "num_aux_hidden_states", "target_hidden_size", "num_draft_layers",
                     "num_target_layers", "sliding_window"});
  rules.at_least(2, {"block_size"});
  rules.at_least(0, {"markov_rank"});
  rules.at_most("draft_vocab_size", rules.members.number("vocab_size"), ", vocab_size");
  const bool own_embedding = kind != DraftKind::dflash && rules.members.find("train_embeddings") == true;
  if (!own_embedding) {
    rules.is("hidden_size", rules.members.find("target_hidden_size"),
             ", target_hidden_size: the embedding is the target's");
  }
  if (rules.members.number("markov_rank") == 0) {
    rules.is("confidence_head_with_markov", false, ": there is no Markov head, markov_rank is 0");
  }
}

}  // namespace K3SPEC_NAMESPACE::io::detail
