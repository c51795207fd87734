#pragma once
/// \file
/// A draft's config.json, of any kind: written, read, and compared with a config compiled in.
/// defines: io::draft_kind, io::draft_backbone, io::draft_differences, io::check_draft_config, io::check_config,
/// io::draft_config_json, io::draft_layer_ids

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/draft_conventions.hpp>
#include <k3spec/io/engine_config.hpp>
#include <k3spec/io/nemo_config.hpp>
#include <k3spec/io/rope_config.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// Calls f<Kind>() for each kind of draft until it returns true. \returns whether one did
template <class F>
bool any_kind(F&& f) {
  return f.template operator()<DraftKind::eagle3>() || f.template operator()<DraftKind::dflash>() ||
         f.template operator()<DraftKind::dspark>();
}

/// Whether a config can be a target's.
template <class Config>
constexpr bool describes_target() {
  return requires { Config::full_attn_layers; }
  &&Config::backbone == Backbone::kimi_k3;
}

[[noreturn]] inline void throw_not_described(std::string_view subject, const json& architectures) {
  throw Error(std::string(subject) + ": architectures", field_text(architectures),
              "a target or a draft that the config compiled in describes");
}

/// Whether a config has what the kind of draft adds.
template <DraftKind Kind, class Config>
constexpr bool describes() {
  if constexpr (Kind == DraftKind::eagle3) return requires {
      Config::num_aux_hidden_states;
    };
  if constexpr (Kind == DraftKind::dflash) return requires {
      Config::block_size;
    };
  if constexpr (Kind == DraftKind::dspark) return requires {
      Config::markov_rank;
    };
}

}  // namespace detail

/// What the file says it is; none when it is no draft.
inline std::optional<DraftKind> draft_kind(const json& root) {
  std::optional<DraftKind> kind = nemo_kind(root);
  if (kind) return kind;
  detail::any_kind([&]<DraftKind Kind> {
    for (const auto name : DraftForm<Kind>::architectures) {
      if (detail::has_architecture(root, name)) kind = Kind;
    }
    return kind.has_value();
  });
  return kind;
}

/// The attention block of the draft that a file says it is; none when it is no draft.
inline std::optional<Backbone> draft_backbone(const json& root) {
  const auto kind = draft_kind(root);
  if (!kind) return std::nullopt;
  const auto& eagle3 = DraftForm<DraftKind::eagle3>::architectures;
  const bool deepseek =
      *kind == DraftKind::eagle3 && !nemo_kind(root) && !detail::has_architecture(root, eagle3.front());
  return deepseek ? Backbone::deepseek_v3 : Backbone::kimi_k3;
}

namespace detail {

/// Compares all that there is to a draft.
template <DraftKind Kind, class Config>
void compare_draft(FieldComparison& fields) {
  using Form = DraftForm<Kind>;
  [[maybe_unused]] constexpr typename Form::template Checked<Config> checked{};
  for (const char* elsewhere : {Form::layers_field, ttt_steps_field}) fields.know(elsewhere);
  if constexpr (Kind == DraftKind::eagle3 && Config::backbone == Backbone::deepseek_v3) {
    if (is_engine_config(fields.root)) return compare_engine_draft<Config>(fields);
  }
  constexpr std::string_view architecture = Form::template architecture<Config>;
  if (!has_architecture(fields.root, architecture)) {
    fields.note("architectures", field_text(fields.find("architectures")), std::string(architecture));
  }
  Form::template visit<Config>(fields);
  compare_rope<Config>(fields);
  compare_conventions(fields, Form::template conventions<Config>());
  compare_granted_draft<Kind, Config>(fields);
}

}  // namespace detail

/// All that a draft's config.json says otherwise than Config, with conventions that are absent or unknown. The file may
/// be in the engines' layout if Config has DeepSeek-V3's backbone.
template <DraftKind Kind, class Config>
Differences draft_differences(const json& root) {
  detail::FieldComparison fields{root};
  detail::compare_draft<Kind, Config>(fields);
  return fields.differences;
}

/// Refuses a draft's config.json that says otherwise than Config.
/// \param subject  the file's name
/// \returns notes for the user, as messages may show them: fields that are not known here
/// \throws Error that lists every difference; also on a file of NeMo Automodel's as it is (io/nemo_config.hpp)
template <DraftKind Kind, class Config>
std::vector<std::string> check_draft_config(const json& root, std::string_view subject = "config.json") {
  if (nemo_kind(root)) {
    throw Error(subject, "a draft that NeMo Automodel wrote, which leaves fields unsaid",
                "it read as one: convert_draft --from nemo writes it anew, load_draft takes LoadGiven::from");
  }
  detail::FieldComparison fields{root};
  detail::compare_draft<Kind, Config>(fields);
  return detail::notes_or_throw(fields, /*draft=*/true, subject);
}

/// A target's or a draft's, by what the file says it is.
/// \returns notes for the user
/// \throws Error that lists every difference, or says that Config is for no such draft
template <class Config>
std::vector<std::string> check_config(const json& root, std::string_view subject = "config.json") {
  std::vector<std::string> notes;
  const bool draft = detail::any_kind([&]<DraftKind Kind> {
    if (draft_kind(root) != Kind) return false;
    if constexpr (detail::describes<Kind, Config>()) {
      notes = check_draft_config<Kind, Config>(root, subject);
    } else {
      detail::throw_not_described(subject, detail::find_in_model(root, "architectures"));
    }
    return true;
  });
  if (draft) return notes;
  if constexpr (detail::describes_target<Config>()) {
    return check_target_config<Config>(root, subject);
  } else {
    detail::throw_not_described(subject, detail::find_in_model(root, "architectures"));
  }
}

/// The target layers a draft reads, in the order of fc's input, as its conventions count them.
/// \throws Error unless there are as many different ones as Config's draft reads
template <DraftKind Kind, class Config>
std::vector<index_t> draft_layer_ids(const json& root, std::string_view subject = "config.json") {
  const char* field = is_engine_config(root) ? engine_layers_field : DraftForm<Kind>::layers_field;
  return detail::layer_ids_of<Kind, Config>(detail::find_in_model(root, field), std::string(subject) + ": " + field);
}

/// config.json of a draft. check_draft_config<Kind, Config> of it finds nothing.
/// \param layer_ids  the target layers it reads, as the conventions count them
/// \param dtype      how its parameters are stored: F64, F32 or BF16
/// \throws Error on conventions that are not those of a draft of this config, and on layers that draft_layer_ids would
///         refuse or no target has
template <DraftKind Kind, class Config>
json draft_config_json(
    const std::vector<index_t>& layer_ids, DType dtype,
    const typename DraftForm<Kind>::Conventions& conventions = DraftForm<Kind>::template conventions<Config>()) {
  using Form = DraftForm<Kind>;
  detail::require_conventions<Kind, Config>(conventions);
  detail::require_layer_ids<Kind, Config>(layer_ids, conventions.layer_ids);
  json root;
  const auto set = [&](const char* name, const auto& value) {
    detail::set_field(root, name, detail::field_value(value));
  };
  Form::template visit<Config>(set);
  Form::Conventions::visit(conventions, set);
  detail::set_ttt_steps(root, conventions);
  set_rope<Config>(root);
  root["architectures"] = {Form::template architecture<Config>};
  root["model_type"] = detail::value_name(Config::backbone);
  root["hidden_act"] = detail::hidden_act<Config>;
  root["tie_word_embeddings"] = false;
  root[Form::layers_field] = layer_ids;
  root["dtype"] = dtype == DType::F64 ? "float64" : dtype == DType::F32 ? "float32" : "bfloat16";
  return root;
}

}  // namespace K3SPEC_NAMESPACE::io
