#pragma once
/// \file
/// A target's config.json against the config compiled in: all that differs is said at once.
/// defines: io::target_differences, io::check_target_config

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/check.hpp>
#include <k3spec/config/fields.hpp>
#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/granted_fields.hpp>
#include <k3spec/io/unknown_fields.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// Counts the ids of a list; anything but a list of integers is noted.
inline void count_layers(FieldComparison& fields, const char* field, std::map<index_t, int>& count) {
  const json list = fields.find(field);
  const bool integers =
      list.is_array() && std::all_of(list.begin(), list.end(), [](const json& n) { return as_index(n).has_value(); });
  if (!integers) return fields.note(field, field_text(list), "a list of layers");
  for (const json& n : list) ++count[n.get<index_t>()];
}

/// Together the two lists have each of the layers 1..L once.
inline void compare_layer_lists(FieldComparison& fields) {
  const auto layers = as_index(fields.find("num_hidden_layers"));
  if (!layers) return;  // noted as a field already
  std::map<index_t, int> count;
  count_layers(fields, "linear_attn_config.full_attn_layers", count);
  count_layers(fields, "linear_attn_config.kda_layers", count);
  const char* both = "linear_attn_config.full_attn_layers and kda_layers";
  const std::string wanted = "each of 1 to " + std::to_string(*layers) + " in one of them, once";
  for (const auto& [id, times] : count) {
    if (id < 1 || id > *layers) fields.note(both, "layer " + std::to_string(id), wanted);
    if (times > 1) fields.note(both, "layer " + std::to_string(id) + " more than once", wanted);
  }
  index_t next = 1;
  while (count.count(next) != 0) ++next;
  if (next <= *layers) fields.note(both, "no layer " + std::to_string(next), wanted);
}

/// Compares all that there is to a target.
template <class Config>
void compare_target(FieldComparison& fields) {
  [[maybe_unused]] constexpr CheckedTarget<Config> checked{};
  visit_target_fields<Config>(
      [&](std::string_view field, const auto& value) { fields.compare(field, find_spelled(fields, field), value); });
  compare_layer_lists(fields);
  compare_granted_target<Config>(fields);
}

}  // namespace detail

/// All that a target's config.json says otherwise than Config; also layer lists that overlap or leave layers out.
template <class Config>
Differences target_differences(const json& root) {
  detail::FieldComparison fields{root};
  detail::compare_target<Config>(fields);
  return fields.differences;
}

/// Refuses a target's config.json that says otherwise than Config.
/// \param subject  the file's name
/// \returns notes for the user, as messages may show them: fields that are not known here
/// \throws Error that lists every difference
template <class Config>
std::vector<std::string> check_target_config(const json& root, std::string_view subject = "config.json") {
  detail::FieldComparison fields{root};
  detail::compare_target<Config>(fields);
  return detail::notes_or_throw(fields, /*draft=*/false, subject);
}

}  // namespace K3SPEC_NAMESPACE::io
