#pragma once
/// \file
/// What a config.json says of a target or a draft, as the members of a config type that does not exist yet. What no
/// config type can say is refused, all of it at once.
/// defines: io::EmittedModel, io::detail::ModelFiles, io::detail::read_target_model, io::detail::read_draft_model,
/// io::read_model

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/config_members.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/member_rules.hpp>
#include <k3spec/io/stop_tokens.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A model by its config.json.
struct EmittedModel {
  std::optional<DraftKind> draft = std::nullopt;  ///< none: a target
  Backbone backbone = Backbone::kimi_k3;
  ConfigMembers members = {};
  std::vector<std::string> remarks = {};  ///< for who reads the type: what it does not say
  std::vector<std::string> notes = {};    ///< for the user, as messages may show them
};

namespace detail {

/// The files of a checkpoint that say what it is.
struct ModelFiles {
  json config, generation = nullptr;
  std::string subject = "config.json", generation_subject = generation_config_name;
};

/// \throws Error that lists all that was noted
inline void throw_unless_agreed(const FieldComparison& fields, std::string_view subject) {
  throw_differences(subject, fields.differences, " fields that no config type here can have so");
}

/// Names the fields that were not looked at.
inline void note_unknown(const FieldComparison& fields, bool draft, std::string_view subject, EmittedModel& out) {
  std::string note = unknown_fields_note(subject, unknown_fields(fields, draft), 200);
  if (!note.empty()) out.notes.push_back(std::move(note));
}

/// Tokens that end a text beside the first that config.json names. \throws Error on one that is no token
inline void add_other_stops(const ModelFiles& files, EmittedModel& out) {
  const index_t vocabulary = out.members.number("vocab_size").value_or(0);
  std::vector<index_t> ids;
  add_stop_tokens(files.config, files.subject, vocabulary, ids);
  if (!files.generation.is_null()) add_stop_tokens(files.generation, files.generation_subject, vocabulary, ids);
  const auto first = out.members.number("eos_token_id");
  if (first) ids.erase(std::remove(ids.begin(), ids.end(), *first), ids.end());
  out.members.add("other_stop_token_ids", ids, MemberType<std::array<index_t, 0>>::value(ids),
                  "tokens that end a text, too: eos_token_id of config.json and generation_config.json");
}

inline void add_media_token(const FieldComparison& fields, EmittedModel& out) {
  const char* field = "media_placeholder_token_id";
  json found = fields.find(field);
  const auto id = as_index(found), vocabulary = out.members.number("vocab_size");
  if (!found.is_null() && !(id && vocabulary && *id >= 0 && *id < *vocabulary)) {
    out.notes.push_back(printable(std::string(field) + ": found " + field_text(found) +
                                  ", which is no token of the vocabulary, so that media_token_id is none"));
    found = nullptr;
  }
  out.members.add("media_token_id", found, MemberType<std::optional<index_t>>::value(found),
                  std::string("of ") + field);
}

/// Where a file says a field by both of its names, they must agree.
inline void compare_spellings(FieldComparison& fields) {
  for (const auto& [own, other] : other_spellings) {
    const json found = fields.find(own);
    if (!found.is_null()) fields.if_there(other, found);
  }
}

inline EmittedModel read_target_model(const ModelFiles& files) {
  EmittedModel out;
  FieldComparison fields{files.config};
  visit_target_fields<configs::KimiK3Target>(MemberReader{fields, out.members});
  compare_layer_lists(fields);
  compare_granted_target(fields);
  compare_spellings(fields);
  const MemberRules rules{fields, out.members};
  check_backbone_members(rules, out.backbone);
  check_target_members(rules);
  add_media_token(fields, out);
  throw_unless_agreed(fields, files.subject);
  add_other_stops(files, out);
  const json eps = configs::KimiK3Target::target_mla_norm_eps;
  out.members.add("target_mla_norm_eps", eps, MemberType<double>::value(eps),
                  "of the preset: config.json has no field for it");
  out.members.add("mla_norm_eps", eps, "target_mla_norm_eps");
  out.notes.push_back("target_mla_norm_eps: taken from KimiK3Target, since no config.json says it: " +
                      MemberType<double>::value(eps));
  note_unknown(fields, /*draft=*/false, files.subject, out);
  return out;
}

/// A YaRN's fields, in order; none that the file lacks, which are noted.
inline std::optional<Yarn> read_yarn(FieldComparison& fields, const std::string& scaling) {
  std::vector<json> found;
  visit_yarn_fields(Yarn{}, [&]<class T>(const char* name, T) {
    const std::string field = scaling + "." + name;
    const json value = fields.find(field);
    if (MemberType<T>::takes(value)) return found.push_back(value);
    fields.note(field, field_text(value), MemberType<T>::wanted());
  });
  if (found.size() != 6) return std::nullopt;
  const auto real = [&](std::size_t i) { return found[i].get<double>(); };
  const Yarn yarn{real(0), real(1), real(2), found[3].get<index_t>(), real(4), real(5)};
  const bool sound = yarn.factor >= 1 && yarn.original_max_position_embeddings >= 1 && yarn.beta_slow > 0 &&
                     yarn.beta_fast >= yarn.beta_slow;
  if (!sound) {
    fields.note(scaling, field_text(found),
                "a factor and original positions of at least 1, and beta_fast no smaller than a positive beta_slow");
  }
  return yarn;
}

inline std::string yarn_value(const std::optional<Yarn>& yarn) {
  if (!yarn) return "std::nullopt";
  std::string text;
  visit_yarn_fields(*yarn, [&]<class T>(const char*, T value) {
    text.append(text.empty() ? "" : ", ").append(MemberType<T>::value(value));
  });
  return "::k3spec::Yarn{" + text + "}";
}

/// Rotary positions, which only DeepSeek-V3's backbone has.
inline void read_rope(FieldComparison& fields, EmittedModel& out) {
  const char* nested = "rope_parameters.rope_theta";
  const json theta = fields.find(fields.find(nested).is_null() ? "rope_theta" : nested);
  if (!theta.is_number()) return fields.note("rope_theta", field_text(theta), MemberType<double>::wanted());
  const RopeScaling scaling = find_rope_scaling(fields);
  std::optional<Yarn> yarn;
  const std::size_t before = fields.differences.size();
  if (rope_type(scaling.value) == "yarn") yarn = read_yarn(fields, scaling.field);
  if (fields.differences.size() == before) compare_rope_with(fields, yarn, theta.get<double>());
  out.members.add("rope_theta", theta, MemberType<double>::value(theta));
  out.members.add("rope_scaling", rope_scaling_json(yarn), yarn_value(yarn));
}

/// The conventions: those of the type are members, those of a run are remarks.
template <DraftKind Kind>
void read_conventions(FieldComparison& fields, EmittedModel& out) {
  using Conventions = typename DraftForm<Kind>::Conventions;
  std::string of_run;
  const Conventions own;
  Conventions::visit(own, [&]<class E>(const char* name, const E& value) {
    const json found = fields.find(name);
    if constexpr (std::is_same_v<E, SoftmaxMscale>) {
      MemberReader{fields, out.members}.template read<E>(name, found);
    } else if constexpr (is_run_time_convention<E>) {
      if (!named_value<E>(found)) return fields.note(name, field_text(found), all_names<E>());
      of_run.append(of_run.empty() ? "" : ", ").append(name).append(" ").append(found.get<std::string>());
    } else {
      fields(name, value);
    }
  });
  const json steps = fields.find(ttt_steps_field);
  if (!steps.is_null()) of_run += ", trained for " + field_text(steps) + " steps";
  const json layers = fields.find(DraftForm<Kind>::layers_field);
  out.remarks.push_back("What is no part of the type: " + of_run + "; " + DraftForm<Kind>::layers_field + " " +
                        field_text(layers) + ".");
}

/// The target layers that a draft reads; how many is a member.
template <DraftKind Kind>
void read_layers(FieldComparison& fields, EmittedModel& out) {
  const char* field = DraftForm<Kind>::layers_field;
  const json found = fields.find(field);
  std::vector<index_t> ids;
  const bool list = MemberType<std::array<index_t, 0>>::takes(found);
  for (const json& id : list ? found : json::array()) ids.push_back(id.get<index_t>());
  if (ids.empty() || repeated_id(ids)) return fields.note(field, field_text(found), "a list of different layers");
  const auto count = static_cast<index_t>(ids.size());
  if constexpr (Kind == DraftKind::eagle3) {
    const auto wanted = out.members.number("num_aux_hidden_states");
    if (wanted && *wanted != count) {
      fields.note(field, field_text(found), std::to_string(*wanted) + " layers, num_aux_hidden_states");
    }
  } else {
    out.members.add("num_target_layers", count, std::to_string(count), std::string("as many as ") + field + " has");
  }
}

/// The fields that a draft of this kind has, and what goes without saying of it.
template <DraftKind Kind, class Preset>
void read_draft_fields(FieldComparison& fields, EmittedModel& out) {
  MemberReader read{fields, out.members, Kind != DraftKind::eagle3};
  DraftForm<Kind>::template visit<Preset>([&](std::string_view field, const auto& preset) {
    const bool fixed = Kind == DraftKind::eagle3 && field == "num_hidden_layers";
    fixed ? fields(field, preset) : read(field, preset);
  });
  BlockFacts block;
  if constexpr (Kind != DraftKind::eagle3) {
    block = {!out.members.find("sliding_window").is_null(), out.members.find("block_causal") == true,
             out.members.find("mask_token_id"), out.members.find("block_size")};
  }
  compare_granted_draft(fields, Kind, Preset::backbone, block);
}

template <DraftKind Kind, class Preset>
EmittedModel read_draft_model(const ModelFiles& files) {
  EmittedModel out{.draft = Kind, .backbone = Preset::backbone};
  FieldComparison fields{files.config};
  read_draft_fields<Kind, Preset>(fields, out);
  if constexpr (Preset::backbone == Backbone::deepseek_v3) read_rope(fields, out);
  read_conventions<Kind>(fields, out);
  read_layers<Kind>(fields, out);
  const MemberRules rules{fields, out.members};
  check_backbone_members(rules, out.backbone);
  check_draft_members(rules, Kind);
  if (out.members.find("rope_scaling").is_null()) rules.is("softmax_mscale", "none", ": there is no YaRN to scale by");
  throw_unless_agreed(fields, files.subject);
  if constexpr (Preset::backbone == Backbone::kimi_k3) {
    add_other_stops(files, out);
    out.members.add("media_token_id", nullptr, "std::nullopt",
                    "a draft's file does not say it, and a draft does not ask");
    out.remarks.push_back("What only a target has is left as KimiK3Target has it, and nobody asks a draft for it.");
  }
  note_unknown(fields, /*draft=*/true, files.subject, out);
  return out;
}

}  // namespace detail

/// A target's or a draft's, by what the file says it is.
/// \throws Error that lists every field whose value no config type can have, those that are absent among them; on a
///         draft in another tool's layout
inline EmittedModel read_model(const detail::ModelFiles& files) {
  using configs::DFlash, configs::DSpark, configs::Eagle3, configs::KimiK3Target;
  const json& root = files.config;
  if (nemo_kind(root)) {
    throw Error(files.subject, "a draft that NeMo Automodel wrote, which leaves fields unsaid",
                "one of this library's: convert_draft --from nemo writes it anew");
  }
  if (is_engine_config(root)) {
    throw Error(files.subject, "a draft in the engines' layout, whose defaults are the engines' own",
                "one of this library's: convert_draft --layout k3spec writes it anew, of a config it was built with");
  }
  const auto kind = draft_kind(root);
  if (!kind) return detail::read_target_model(files);
  if (*kind == DraftKind::dflash) return detail::read_draft_model<DraftKind::dflash, DFlash<KimiK3Target>>(files);
  if (*kind == DraftKind::dspark) return detail::read_draft_model<DraftKind::dspark, DSpark<KimiK3Target>>(files);
  return draft_backbone(root) == Backbone::kimi_k3
             ? detail::read_draft_model<DraftKind::eagle3, Eagle3<KimiK3Target>>(files)
             : detail::read_draft_model<DraftKind::eagle3, configs::DeepSeekV3>(files);
}

}  // namespace K3SPEC_NAMESPACE::io
