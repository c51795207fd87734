#pragma once
/// \file
/// config.json of an EAGLE-3 draft with DeepSeek-V3's backbone as vLLM and SGLang load it
/// (Eagle3DeepseekV2ForCausalLM). Their names for sizes are this library's, too. What they do not know they pass over:
/// so the conventions are named here as in any file, and a file of theirs, which names none, is not read as if it did.
///
/// Both multiply the softmax scale by YaRN's mscale² and the rotated slices by a ratio of two mscales, as long as these
/// are not 0. Written is what makes them compute what the draft does: zeros where softmax_mscale is none. vLLM takes
/// the base of the frequencies from the dictionary of the rotary positions alone, and both take any such dictionary for
/// a YaRN, whatever type it names; so one is there wherever the base is not the 10,000 that they take without.
/// defines: EngineExport, io::is_engine_config, io::engine_layers_field, io::engine_config_json

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <k3spec/io/draft_conventions.hpp>
#include <k3spec/io/granted_fields.hpp>
#include <k3spec/io/rope_config.hpp>

namespace K3SPEC_NAMESPACE {

/// How a draft is written for an engine.
struct EngineExport {
  /// How the file counts layers. On a K3 target vLLM, SGLang and tokenspeed alike read them as layers_executed;
  /// after_layer_0 is for what else reads the file.
  LayerIds layer_ids = LayerIds::layers_executed;
  /// Without it, engines take the target's embedding. One that is trained or of another width must be written.
  bool embed_tokens = true;
};

namespace io {

inline constexpr const char* engine_layers_field = "eagle_config.eagle_aux_hidden_state_layer_ids";

/// Whether the file says that it is in the engines' layout.
inline bool is_engine_config(const json& root) {
  return detail::has_architecture(root, DraftForm<DraftKind::eagle3>::engine_architecture);
}

namespace detail {

/// YaRN as engines must find it to do as the draft does: they do not ask whether the positions are longer than the
/// original ones.
template <class Config>
constexpr std::optional<Yarn> engine_yarn() {
  std::optional<Yarn> yarn = effective_yarn<Config>();
  if (!yarn) return std::nullopt;
  const bool scaled = Config::softmax_mscale == SoftmaxMscale::yarn_mscale_squared;
  yarn->mscale = yarn->mscale_all_dim = scaled ? yarn->mscale_all_dim : 0;
  return yarn;
}

/// The base of the frequencies where a file has no dictionary of rotary positions.
inline constexpr double engine_rope_theta = 10000;

/// What engines take of a YaRN to be that a file does not say.
inline constexpr Yarn engine_yarn_defaults{.factor = 1,
                                           .beta_fast = 32,
                                           .beta_slow = 1,
                                           .original_max_position_embeddings = 0,
                                           .mscale = 1,
                                           .mscale_all_dim = 0};

/// The dictionary of the rotary positions; null where engines do right without one. One that stretches nothing has all
/// fields of a YaRN, which does nothing with a factor of 1.
template <class Config>
json engine_rope_json() {
  const std::optional<Yarn> yarn = engine_yarn<Config>();
  if (!yarn && Config::rope_theta == engine_rope_theta) return nullptr;
  Yarn nothing = engine_yarn_defaults;
  nothing.original_max_position_embeddings = Config::max_position_embeddings;
  nothing.mscale = 0;
  json rope = rope_scaling_json(yarn.value_or(nothing));
  if (!yarn) rope["type"] = rope["rope_type"] = "default";
  rope["rope_theta"] = Config::rope_theta;
  return rope;
}

/// \throws Error unless the layers ascend: engines gather states in the order of the layers, whatever the list's
inline void require_ascending(const std::vector<index_t>& layer_ids) {
  if (std::is_sorted(layer_ids.begin(), layer_ids.end())) return;
  throw Error(engine_layers_field, excerpt(layer_ids), "ascending layers: engines gather their states in that order");
}

/// What the engines' loaders take a field to be that a file lacks; null where the file must have it.
template <class Config>
json engine_default(std::string_view field) {
  if (field == "draft_vocab_size") return Config::vocab_size;
  if (field == "target_hidden_size") return Config::hidden_size;
  if (field == "fc_norm" || field == "norm_output") return false;
  return nullptr;
}

/// Fields that this library writes and no engine asks for: the layout or the tensors say them already.
inline bool is_no_engine_field(std::string_view field) {
  for (const std::string_view own :
       {"mla_use_nope", "mla_use_output_gate", "mla_norm_eps", "train_embeddings", "num_aux_hidden_states",
        "num_key_value_heads", "bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (field == own) return true;
  }
  return false;
}

template <class Config>
void compare_engine_rope(FieldComparison& fields) {
  compare_rope_with(fields, engine_yarn<Config>(), Config::rope_theta,
                    Config::softmax_mscale == SoftmaxMscale::yarn_mscale_squared, &engine_yarn_defaults);
}

/// Compares such a file with Config, with conventions that are absent or unknown.
template <class Config>
void compare_engine_draft(FieldComparison& fields) {
  using Form = DraftForm<DraftKind::eagle3>;
  fields.know(engine_layers_field);
  Form::template visit<Config>([&](std::string_view name, const auto& value) {
    const json found = fields.find(name), wanted = field_value(value);
    const bool granted = is_no_engine_field(name) || engine_default<Config>(name) == wanted;
    if (!found.is_null() || !(granted || wanted.is_null())) fields(name, value);
  });
  compare_engine_rope<Config>(fields);
  compare_conventions(fields, Form::template conventions<Config>());
  compare_granted_draft<DraftKind::eagle3, Config>(fields);
  fields.if_there("eagle_config.use_aux_hidden_state", true);
}

}  // namespace detail

/// The config.json of a draft in the engines' layout.
/// \param layer_ids  the target layers the draft reads, as the conventions count them
/// \throws Error on conventions that are not those of a draft of this config, and on layers that draft_layer_ids would
///         refuse, that no target has or that do not ascend
template <class Config>
json engine_config_json(const std::vector<index_t>& layer_ids, const Eagle3Conventions& conventions,
                        const EngineExport& how = {}) {
  using Form = DraftForm<DraftKind::eagle3>;
  detail::require_conventions<DraftKind::eagle3, Config>(conventions);
  detail::require_layer_ids<DraftKind::eagle3, Config>(layer_ids, conventions.layer_ids);
  detail::require_ascending(layer_ids);
  json root;
  const auto set = [&](const char* name, const auto& value) { root[name] = detail::field_value(value); };
  Form::template visit<Config>(set);
  Eagle3Conventions written = conventions;
  written.layer_ids = how.layer_ids;
  Form::Conventions::visit(written, set);
  detail::set_ttt_steps(root, written);
  std::vector<index_t> ids;
  for (const index_t id : layer_ids) ids.push_back(layer_id(layer_number(id, conventions.layer_ids), how.layer_ids));
  detail::set_field(root, engine_layers_field, ids);
  detail::set_field(root, "eagle_config.use_aux_hidden_state", true);
  root["rope_theta"] = Config::rope_theta;
  root["rope_scaling"] = detail::engine_rope_json<Config>();
  root["architectures"] = {Form::engine_architecture};
  root["model_type"] = detail::value_name(Config::backbone);
  root["hidden_act"] = detail::hidden_act<Config>;
  root["tie_word_embeddings"] = false;
  root["dtype"] = root["torch_dtype"] = "bfloat16";
  return root;
}

}  // namespace io
}  // namespace K3SPEC_NAMESPACE
