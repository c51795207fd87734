#pragma once
/// \file
/// A draft's config.json, of any kind: written, read, and compared with a config compiled in.
/// defines: io::draft_kind, io::draft_differences, io::check_draft_config, io::check_config, io::draft_config_json,
/// io::draft_conventions, io::draft_layer_ids

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/io/config_json.hpp>

namespace k3spec::io {

namespace detail {

inline bool has_architecture(const json& root, std::string_view name) {
  const json list = find_field(root, "architectures");
  return list.is_array() && std::find(list.begin(), list.end(), json(name)) != list.end();
}

/// Calls f<Kind>() for each kind of draft until it returns true. \returns whether one did
template <class F>
bool any_kind(F&& f) {
  return f.template operator()<DraftKind::eagle3>() || f.template operator()<DraftKind::dflash>() ||
         f.template operator()<DraftKind::dspark>();
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
  std::optional<DraftKind> kind;
  detail::any_kind([&]<DraftKind Kind> {
    if (detail::has_architecture(root, DraftForm<Kind>::architecture)) kind = Kind;
    return kind.has_value();
  });
  return kind;
}

/// All that a draft's config.json says otherwise than Config and the conventions.
template <DraftKind Kind, class Config>
Differences draft_differences(const json& root, const typename DraftForm<Kind>::Conventions& conventions = {}) {
  using Form = DraftForm<Kind>;
  [[maybe_unused]] constexpr typename Form::template Checked<Config> checked{};
  detail::FieldComparison fields{root, {}};
  if (!detail::has_architecture(root, Form::architecture)) {
    fields.note("architectures", detail::field_text(fields.find("architectures")), std::string(Form::architecture));
  }
  Form::template visit<Config>(fields);
  Form::Conventions::visit(conventions, fields);
  fields.if_there("hidden_act", "situ");
  fields.if_there("tie_word_embeddings", false);
  return fields.differences;
}

/// \throws Error that lists every difference. \param subject  the file's name
template <DraftKind Kind, class Config>
void check_draft_config(const json& root, std::string_view subject = "config.json",
                        const typename DraftForm<Kind>::Conventions& conventions = {}) {
  detail::throw_differences(subject, draft_differences<Kind, Config>(root, conventions));
}

/// A target's or a draft's, by what the file says it is.
/// \throws Error that lists every difference, or says that Config is for no such draft
template <class Config>
void check_config(const json& root, std::string_view subject = "config.json") {
  const bool draft = detail::any_kind([&]<DraftKind Kind> {
    if (draft_kind(root) != Kind) return false;
    if constexpr (detail::describes<Kind, Config>()) {
      check_draft_config<Kind, Config>(root, subject);
    } else {
      throw Error(std::string(subject) + ": architectures", std::string(DraftForm<Kind>::architecture),
                  "a target or a draft that the config compiled in describes");
    }
    return true;
  });
  if (!draft) check_target_config<Config>(root, subject);
}

/// The conventions a draft's config.json names.
/// \throws Error on one that is absent or has a name that is not known
template <DraftKind Kind>
typename DraftForm<Kind>::Conventions draft_conventions(const json& root, std::string_view subject = "config.json") {
  typename DraftForm<Kind>::Conventions out;
  DraftForm<Kind>::Conventions::visit(out, [&]<class E>(const char* name, E& value) {
    const json found = detail::find_field(root, name);
    const auto known = detail::named_value<E>(found);
    if (!known) throw Error(std::string(subject) + ": " + name, detail::field_text(found), detail::all_names<E>());
    value = *known;
  });
  return out;
}

/// The target layers a draft reads, in the order of fc's input.
/// \throws Error unless there are as many different ones as Config's draft reads
template <DraftKind Kind, class Config>
std::vector<index_t> draft_layer_ids(const json& root, std::string_view subject = "config.json") {
  constexpr index_t count = DraftForm<Kind>::template target_layers<Config>;
  const char* field = DraftForm<Kind>::layers_field;
  const json found = detail::find_field(root, field);
  std::vector<index_t> ids;
  for (const json& id : found.is_array() ? found : json::array()) {
    if (id.is_number_integer()) ids.push_back(id.get<index_t>());
  }
  std::vector<index_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!distinct || ids.size() != static_cast<std::size_t>(count) || ids.size() != found.size()) {
    throw Error(std::string(subject) + ": " + field, detail::field_text(found),
                std::to_string(count) + " different layers");
  }
  return ids;
}

/// config.json of a draft. check_draft_config<Kind, Config> of it finds nothing.
/// \param layer_ids  the target layers it reads
/// \param dtype      how its parameters are stored: F64, F32 or BF16
template <DraftKind Kind, class Config>
json draft_config_json(const std::vector<index_t>& layer_ids, DType dtype,
                       const typename DraftForm<Kind>::Conventions& conventions = {}) {
  using Form = DraftForm<Kind>;
  json root;
  const auto set = [&](const char* name, const auto& value) {
    detail::set_field(root, name, detail::field_value(value));
  };
  Form::template visit<Config>(set);
  Form::Conventions::visit(conventions, set);
  root["architectures"] = {Form::architecture};
  root["model_type"] = "kimi_k3";
  root["hidden_act"] = "situ";
  root["tie_word_embeddings"] = false;
  root[Form::layers_field] = layer_ids;
  root["dtype"] = dtype == DType::F64 ? "float64" : dtype == DType::F32 ? "float32" : "bfloat16";
  return root;
}

}  // namespace k3spec::io
