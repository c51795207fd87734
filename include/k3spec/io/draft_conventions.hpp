#pragma once
/// \file
/// The conventions that a draft's config.json names, and what else all such files have in common.
/// defines: io::draft_conventions, io::with_conventions

#include <algorithm>
#include <string>
#include <string_view>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/io/config_json.hpp>

namespace k3spec::io {

namespace detail {

inline bool has_architecture(const json& root, std::string_view name) {
  const json list = find_field(root, "architectures");
  return list.is_array() && std::find(list.begin(), list.end(), json(name)) != list.end();
}

/// What the code takes for granted of either backbone.
template <class Config>
constexpr const char* hidden_act = Config::backbone == Backbone::kimi_k3 ? "situ" : "silu";

inline void compare_what_is_granted(FieldComparison& fields, const char* hidden_act) {
  fields.if_there("hidden_act", hidden_act);
  fields.if_there("tie_word_embeddings", false);
  fields.if_there("parallel_drafting", false);
}

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

/// The file with what it does not say of conventions said by the caller. What it says stays.
template <class Conventions>
json with_conventions(json root, const Conventions& given) {
  Conventions::visit(given, [&](const char* name, auto value) {
    if (root.is_object() && detail::find_field(root, name).is_null()) root[name] = detail::value_name(value);
  });
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

}  // namespace detail

}  // namespace k3spec::io
