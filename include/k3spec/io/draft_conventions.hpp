#pragma once
/// \file
/// The conventions that a draft's config.json names, and what else all such files have in common.
/// defines: io::draft_conventions, io::with_conventions

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/io/field_comparison.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

inline bool has_architecture(const json& root, std::string_view name) {
  const json list = find_in_model(root, "architectures");
  return list.is_array() && std::find(list.begin(), list.end(), json(name)) != list.end();
}

/// What the code takes for granted of either backbone.
template <class Config>
constexpr const char* hidden_act = Config::backbone == Backbone::kimi_k3 ? "situ" : "silu";

/// Each convention must be named. One that is no matter of the draft's type may have any value that there is.
template <class Conventions>
void compare_conventions(FieldComparison& fields, const Conventions& wanted) {
  Conventions::visit(wanted, [&]<class E>(const char* name, const E& value) {
    if constexpr (is_run_time_convention<E>) {
      const json found = fields.find(name);
      if (!named_value<E>(found)) fields.note(name, field_text(found), all_names<E>());
    } else {
      fields(name, value);
    }
  });
}

}  // namespace detail

namespace detail {

inline constexpr const char* ttt_steps_field = "ttt_steps";

/// Steps an EAGLE-3 draft's training was unrolled for; none where the file does not say.
/// \throws Error on what is no number of steps
inline std::optional<index_t> ttt_steps_of(const json& root, std::string_view subject) {
  const json found = find_in_model(root, ttt_steps_field);
  if (found.is_null()) return std::nullopt;
  const auto steps = as_index(found);
  if (steps && *steps >= 1) return steps;
  throw Error(std::string(subject) + ": " + ttt_steps_field, field_text(found), "a number of steps, at least 1");
}

/// Writes what the conventions say that is no name.
template <class Conventions>
void set_ttt_steps(json& root, const Conventions& conventions) {
  if constexpr (requires { conventions.ttt_steps; }) {
    if (conventions.ttt_steps) root[ttt_steps_field] = *conventions.ttt_steps;
  }
}

}  // namespace detail

/// The conventions a draft's config.json names, and for EAGLE-3 its ttt_steps, if there.
/// \throws Error on one that is absent or has a name that is not known
template <DraftKind Kind>
typename DraftForm<Kind>::Conventions draft_conventions(const json& root, std::string_view subject = "config.json") {
  typename DraftForm<Kind>::Conventions out;
  DraftForm<Kind>::Conventions::visit(out, [&]<class E>(const char* name, E& value) {
    const json found = detail::find_in_model(root, name);
    const auto known = detail::named_value<E>(found);
    if (!known) throw Error(std::string(subject) + ": " + name, detail::field_text(found), detail::all_names<E>());
    value = *known;
  });
  if constexpr (requires { out.ttt_steps; }) out.ttt_steps = detail::ttt_steps_of(root, subject);
  return out;
}

/// The file with what it does not say of conventions said by the caller. What it says stays.
template <class Conventions>
json with_conventions(json root, const Conventions& given) {
  Conventions::visit(given, [&](const char* name, auto value) {
    if (root.is_object() && detail::find_in_model(root, name).is_null()) root[name] = detail::value_name(value);
  });
  if (root.is_object() && detail::find_in_model(root, detail::ttt_steps_field).is_null()) {
    detail::set_ttt_steps(root, given);
  }
  return root;
}

namespace detail {

/// \throws Error on conventions that a draft of this config cannot have been trained with
template <DraftKind Kind, class Config>
void require_conventions(const typename DraftForm<Kind>::Conventions& conventions) {
  json named;
  DraftForm<Kind>::Conventions::visit(conventions,
                                      [&](const char* name, auto value) { named[name] = value_name(value); });
  FieldComparison of_draft{named, {}};
  compare_conventions(of_draft, DraftForm<Kind>::template conventions<Config>());
  throw_differences("conventions", of_draft.differences);
}

/// The ids of a list. \throws Error naming the field unless they are as many different ones as Config's draft reads
template <DraftKind Kind, class Config>
std::vector<index_t> layer_ids_of(const json& list, const std::string& field) {
  constexpr auto count = static_cast<std::size_t>(DraftForm<Kind>::template target_layers<Config>);
  std::vector<index_t> ids;
  for (const json& element : list.is_array() ? list : json::array()) {
    if (const auto id = as_index(element)) ids.push_back(*id);
  }
  if (ids.size() == count && list.size() == count && !repeated_id(ids)) return ids;
  throw Error(field, field_text(list), std::to_string(count) + " different layers");
}

/// \throws Error on ids that layer_ids_of refuses, and on one that no target has
template <DraftKind Kind, class Config>
void require_layer_ids(const std::vector<index_t>& ids, LayerIds counting) {
  using Form = DraftForm<Kind>;
  for (const index_t id : layer_ids_of<Kind, Config>(ids, Form::layers_field)) {
    if (layer_number(id, counting) >= Form::first_layer) continue;
    throw Error(Form::layers_field, std::to_string(id),
                std::to_string(layer_id(Form::first_layer, counting)) + " or more, counted as " + value_name(counting));
  }
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE::io
