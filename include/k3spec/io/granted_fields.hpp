#pragma once
/// \file
/// What the code takes for granted of a model: fields of config.json that may be absent, but say nothing else if they
/// are there. Names are those of transformers' configs and of the configs published with Kimi K3, Kimi Linear and
/// DeepSeek-V3, whose own spellings of a field count like K3's.
/// defines: io::detail::other_spellings, io::detail::find_spelled, io::detail::compare_quantization,
/// io::detail::compare_model_type, io::detail::compare_granted_target, io::detail::BlockFacts,
/// io::detail::compare_granted_draft

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// K3's name of a target's field, and DeepSeek-V3's.
struct Spelling {
  const char *field, *other;
};
inline constexpr std::array<Spelling, 5> other_spellings{{{"moe_renormalize", "norm_topk_prob"},
                                                          {"num_experts_per_token", "num_experts_per_tok"},
                                                          {"num_experts", "n_routed_experts"},
                                                          {"num_shared_experts", "n_shared_experts"},
                                                          {"num_expert_group", "n_group"}}};

/// A target's field by K3's name or, where the file lacks that, by the other one.
inline json find_spelled(const FieldComparison& fields, std::string_view field) {
  json found = fields.find(field);
  for (const auto& [own, other] : other_spellings) {
    if (found.is_null() && field == own) found = fields.find(other);
  }
  return found;
}

/// One of several values, where the field is there at all.
inline void one_of(FieldComparison& fields, std::string_view field, const json& found,
                   std::initializer_list<const char*> wanted) {
  if (found.is_null() || std::any_of(wanted.begin(), wanted.end(), [&](const char* w) { return found == w; })) return;
  std::string names;
  for (const char* name : wanted) names.append(names.empty() ? "\"" : " or \"").append(name).append("\"");
  fields.note(field, field_text(found), names);
}

/// A group of compressed-tensors: weights alone, as mxfp4.hpp reads them.
inline void compare_quantized_group(FieldComparison& fields, const std::string& at, const json& group) {
  if (!group.is_object()) return fields.note(at, field_text(group), "an object");
  const auto wanted = [&](const char* name, const json& value, bool may_lack = true) {
    const json found = find_field(group, name);
    if (found != value && !(may_lack && found.is_null())) {
      fields.note(at + "." + name, field_text(found), field_text(value));
    }
  };
  wanted("format", "mxfp4-pack-quantized");
  wanted("input_activations", nullptr, false), wanted("output_activations", nullptr, false);
  wanted("weights.num_bits", 4), wanted("weights.group_size", 32), wanted("weights.type", "float");
  wanted("weights.symmetric", true), wanted("weights.dynamic", false);
}

inline void compare_quantization_of(FieldComparison& fields, const json& found) {
  const std::string name = "quantization_config";
  if (!found.is_object()) return fields.note(name, field_text(found), "an object");
  const json method = find_field(found, "quant_method");
  if (method != "compressed-tensors") {
    return fields.note(name + ".quant_method", field_text(method), "\"compressed-tensors\", or no quantization_config");
  }
  one_of(fields, name + ".format", find_field(found, "format"), {"mxfp4-pack-quantized"});
  const json cache = find_field(found, "kv_cache_scheme"), groups = find_field(found, "config_groups");
  if (!cache.is_null()) fields.note(name + ".kv_cache_scheme", field_text(cache), "nothing");
  if (!groups.is_object()) return;
  for (const auto& [group, value] : groups.items()) {
    compare_quantized_group(fields, name + ".config_groups." + group, value);
  }
}

/// Quantised weights are MXFP4 as compressed-tensors packs it, or there are none.
inline void compare_quantization(FieldComparison& fields) {
  fields.know("quantization_config");
  const json& text = text_config(fields.root);
  const json in_text = find_field(text, "quantization_config"), at_top = find_field(fields.root, "quantization_config");
  if (!in_text.is_null()) compare_quantization_of(fields, in_text);
  if (!at_top.is_null() && at_top != in_text) compare_quantization_of(fields, at_top);
}

inline void compare_model_type(FieldComparison& fields, std::initializer_list<const char*> wanted) {
  const std::string name = "model_type";
  fields.know(name);
  const json& text = text_config(fields.root);
  one_of(fields, name, find_field(text, name), wanted);
  if (&text != &fields.root) one_of(fields, name, find_field(fields.root, name), wanted);
}

/// Layers of a kind that no code here has.
inline void compare_layer_types(FieldComparison& fields, std::initializer_list<const char*> wanted) {
  const json list = fields.find("layer_types");
  for (const json& type : list.is_array() ? list : json::array()) {
    const std::size_t before = fields.differences.size();
    one_of(fields, "layer_types", type, wanted);
    if (fields.differences.size() != before) return;
  }
  if (!list.is_null() && !list.is_array()) fields.note("layer_types", field_text(list), "a list");
}

/// What no model here has, targets and drafts alike.
inline void compare_granted(FieldComparison& fields, const char* hidden_act) {
  fields.if_there("hidden_act", hidden_act);
  for (const char* name : {"attention_bias", "qkv_bias", "mlp_bias", "use_bias", "use_qk_norm", "tie_word_embeddings",
                           "is_encoder_decoder", "add_cross_attention"}) {
    fields.if_there(name, false);
  }
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "cross_attention_hidden_size"}) {
    fields.if_there(name, nullptr);
  }
  fields.if_there("logit_scale", 1.0);
  fields.if_there("pruned_heads", json::object());
  compare_quantization(fields);
}

/// All but the other spellings of fields.
inline void compare_granted_target(FieldComparison& fields) {
  compare_model_type(fields, {"kimi_k3", "kimi_linear"});
  compare_granted(fields, "situ");
  compare_layer_types(fields, {"full_attention", "linear_attention"});
  const json architectures = fields.find("architectures");
  if (architectures.is_array() && architectures.size() == 1) {
    one_of(fields, "architectures", architectures[0],
           {"KimiK3ForConditionalGeneration", "KimiK3ForCausalLM", "KimiLinearForCausalLM"});
  }
  fields.if_there("sliding_window", nullptr);
  fields.if_there("use_sliding_window", false);
  for (const char* name : {"moe_router_activation_func", "scoring_func"}) fields.if_there(name, "sigmoid");
  fields.if_there("topk_method", "noaux_tc");
  fields.if_there("use_grouped_topk", true);
  fields.if_there("kda_use_qk_l2norm_in_kernel", true);
}

template <class Config>
void compare_granted_target(FieldComparison& fields) {
  compare_granted_target(fields);
  fields.if_there("norm_topk_prob", Config::moe_renormalize);
  fields.if_there("num_experts_per_tok", Config::num_experts_per_token);
  fields.if_there("n_routed_experts", Config::num_experts);
  fields.if_there("n_shared_experts", Config::num_shared_experts);
  fields.if_there("n_group", Config::num_expert_group);
}

/// What a block draft's file may say in other words, too.
struct BlockFacts {
  bool windowed = false, causal = false;
  json mask_token_id = nullptr, block_size = nullptr;
};

/// \param block  of a block draft
inline void compare_granted_draft(FieldComparison& fields, DraftKind kind, Backbone backbone,
                                  const BlockFacts& block = {}) {
  if (backbone == Backbone::kimi_k3) {
    compare_model_type(fields, {"kimi_k3", "kimi_linear"});
    compare_granted(fields, "situ");
  } else {
    compare_model_type(fields, {"deepseek_v3", "deepseek_v2", "kimi_k2"});
    compare_granted(fields, "silu");
  }
  fields.if_there("parallel_drafting", false);
  fields.if_there("norm_before_residual", false);
  fields.if_there("norm_before_fc", false);
  if (kind == DraftKind::eagle3) {
    compare_layer_types(fields, {"full_attention", "linear_attention"});
    fields.if_there("sliding_window", nullptr);
    fields.if_there("use_sliding_window", false);
    fields.if_there("is_causal", true);
  } else {
    compare_layer_types(fields, {block.windowed ? "sliding_attention" : "full_attention"});
    fields.if_there("use_sliding_window", block.windowed);
    fields.if_there("is_causal", block.causal);
    fields.if_there("sample_from_anchor", kind == DraftKind::dspark);
    fields.know("dflash_config.target_layer_ids");
    fields.if_there("dflash_config.projector_type", nullptr);
    fields.if_there("dflash_config.mask_token_id", block.mask_token_id);
    fields.if_there("dflash_config.block_size", block.block_size);
    fields.if_there("dflash_config.causal", block.causal);
  }
}

template <DraftKind Kind, class Config>
void compare_granted_draft(FieldComparison& fields) {
  BlockFacts block;
  if constexpr (Kind != DraftKind::eagle3) {
    block = {Config::sliding_window.has_value(), Config::block_causal, field_value(Config::mask_token_id),
             json(Config::block_size)};
  }
  compare_granted_draft(fields, Kind, Config::backbone, block);
}

}  // namespace K3SPEC_NAMESPACE::io::detail
