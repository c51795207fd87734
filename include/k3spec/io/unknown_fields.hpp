#pragma once
/// \file
/// Fields of config.json that nobody looked at when it was compared. Of most it is known that they change nothing that
/// is computed here; the others are named, since they may.
/// defines: io::detail::unknown_fields, io::detail::unknown_fields_note, io::detail::notes_or_throw

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// What transformers writes into any config: of other tasks, of generating, and how a program runs.
inline constexpr std::string_view transformers_fields =
    " architectures attention_dropout _attn_implementation attn_implementation _attn_implementation_internal"
    " auto_map bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward decoder_start_token_id"
    " diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id"
    " exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id head_dim id2label"
    " initializer_range is_decoder keys_to_ignore_at_inference label2id length_penalty max_length"
    " max_window_layers min_length _name_or_path no_repeat_ngram_size num_beam_groups num_beams"
    " num_return_sequences output_attentions output_hidden_states output_router_logits output_scores pad_token_id"
    " prefix pretraining_tp problem_type remove_invalid_values repetition_penalty return_dict"
    " return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss"
    " tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers_version typical_p"
    " use_bfloat16 use_cache ";

/// What the configs of Kimi's and DeepSeek's models, and of trainers of their drafts, have beside: other parts of the
/// model, losses, kernels. A model without positions does not look at theirs; one with them has been compared.
inline constexpr std::string_view other_fields =
    " attn_res_triton aux_loss_alpha ep_size ignore_index image_placeholder kda_chunk_impl kda_conv_backend"
    " kda_disable_recompute kda_mode kda_transpose_state_layout kda_unpad_inputs kda_use_fused_gate"
    " max_position_embeddings media_placeholder_token_id num_anchors num_nextn_predict_layers"
    " partial_rotary_factor rope_interleave rope_parameters rope_scaling rope_theta router_aux_loss_coef seq_aux"
    " situ_backend text_config use_unified_vision_chunk video_placeholder vision_config ";

/// What a draft's file may have of its target, which the draft is not made of.
inline constexpr std::string_view fields_of_target =
    " attn_res_block_size first_k_dense_replace kda_use_qk_l2norm_in_kernel latent_moe_use_norm"
    " linear_attn_config moe_intermediate_size moe_layer_freq moe_renormalize moe_router_activation_func n_group"
    " n_routed_experts n_shared_experts norm_topk_prob num_expert_group num_experts num_experts_per_tok"
    " num_experts_per_token num_shared_experts num_target_layers routed_expert_hidden_size routed_scaling_factor"
    " scoring_func target_num_hidden_layers topk_group topk_method use_grouped_topk ";

/// \param names  with a blank before and behind each
inline bool is_one_of(std::string_view names, std::string_view name) {
  return name.find(' ') == std::string_view::npos &&
         names.find(" " + std::string(name) + " ") != std::string_view::npos;
}

/// Adds the fields of an object that were not asked for. \param at  "" or where the object stands, with a dot
inline void add_unknown(const FieldComparison& fields, const json& object, const std::string& at, bool draft,
                        std::set<std::string>& out) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const std::string name = at + key;
    const bool known = fields.asked.count(name) != 0 || value.is_null() ||
                       (at.empty() && (is_one_of(transformers_fields, key) || is_one_of(other_fields, key) ||
                                       (draft && is_one_of(fields_of_target, key))));
    if (known) continue;
    const auto inside = fields.asked.lower_bound(name + ".");
    if (inside != fields.asked.end() && inside->compare(0, name.size() + 1, name + ".") == 0) {
      add_unknown(fields, value, name + ".", draft, out);
    } else {
      out.insert(name);
    }
  }
}

/// Of the model's fields, those that a comparison did not ask for and that are not known to be without effect.
/// \param draft  whether the file is a draft's
inline std::set<std::string> unknown_fields(const FieldComparison& fields, bool draft) {
  std::set<std::string> out;
  const json& text = text_config(fields.root);
  add_unknown(fields, text, {}, draft, out);
  if (&text != &fields.root) add_unknown(fields, fields.root, {}, draft, out);
  return out;
}

/// One sentence, of a length that can be read; empty for none. \param most  names in it
inline std::string unknown_fields_note(std::string_view subject, const std::set<std::string>& unknown,
                                       std::size_t most = 8) {
  std::string names;
  std::size_t said = 0;
  for (auto name = unknown.begin(); name != unknown.end() && said < most; ++name, ++said) {
    names.append(names.empty() ? "'" : ", '").append(printable(*name, 80)).append("'");
  }
  if (names.empty()) return {};
  if (unknown.size() > most) names += " and " + std::to_string(unknown.size() - most) + " more";
  return printable(subject, 6000) +
         ": not known here, and so not heeded, though it may change what the model computes: " + names;
}

/// What follows from a comparison.
/// \returns notes for the user \throws Error that lists every difference
inline std::vector<std::string> notes_or_throw(const FieldComparison& fields, bool draft, std::string_view subject) {
  throw_differences(subject, fields.differences);
  std::string note = unknown_fields_note(subject, unknown_fields(fields, draft));
  return note.empty() ? std::vector<std::string>{} : std::vector<std::string>{std::move(note)};
}

}  // namespace K3SPEC_NAMESPACE::io::detail
