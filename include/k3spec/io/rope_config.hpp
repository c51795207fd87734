#pragma once
/// \file
/// Rotary positions in config.json. They stand at the top (rope_theta, and rope_scaling with a `type` or `rope_type`)
/// or, as newer transformers write them, together in rope_parameters. What stands in rope_parameters wins. Both are
/// read; the first is written.
/// defines: io::compare_rope, io::set_rope, io::rope_scaling_json

#include <optional>
#include <string>

#include <k3spec/config/fields.hpp>
#include <k3spec/io/field_comparison.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// The name by which a file scales rotary positions, in `rope_type` or the older `type`; null where it names none.
/// Two names that differ are kept as both, which no type is.
inline json rope_type(const json& rope) {
  const json name = find_field(rope, "rope_type"), older = find_field(rope, "type");
  if (name.is_null()) return older;
  return older.is_null() || older == name ? name : json{name, older};
}

/// Where the file scales rotary positions.
struct RopeScaling {
  std::string field;  ///< "rope_parameters" or "rope_scaling"
  json value;         ///< null: nowhere
};

/// Whether there is more in such an object than rope_theta, so that it scales or is none at all.
inline bool scales_rope(const json& rope) {
  if (!rope.is_object()) return !rope.is_null();
  for (const auto& [name, value] : rope.items()) {
    if (name != "rope_theta" && !value.is_null()) return true;
  }
  return false;
}

/// rope_parameters that say no more than rope_theta leave the word to rope_scaling.
inline RopeScaling find_rope_scaling(const FieldComparison& fields) {
  const json nested = fields.find("rope_parameters");
  if (scales_rope(nested)) return {"rope_parameters", nested};
  return {"rope_scaling", fields.find("rope_scaling")};
}

inline void compare_rope_theta(FieldComparison& fields, double theta) {
  const char* nested = "rope_parameters.rope_theta";
  fields(fields.find(nested).is_null() ? "rope_theta" : nested, theta);
  if (!scales_rope(fields.find("rope_parameters"))) fields.if_there("rope_scaling.rope_theta", theta);
}

/// Fields that change rotary positions in a way that no config here has.
inline void refuse_other_rope_fields(FieldComparison& fields, const RopeScaling& scaling) {
  fields.if_there(scaling.field + ".partial_rotary_factor", 1);
  for (const auto& [name, value] : scaling.value.items()) {
    bool known = name == "type" || name == "rope_type" || name == "rope_theta" || name == "partial_rotary_factor" ||
                 value.is_null();
    visit_yarn_fields(Yarn{}, [&, &field = name](std::string_view yarn, auto) { known = known || field == yarn; });
    if (!known) fields.note(scaling.field + "." + name, field_text(value), "nothing");
  }
}

/// A field of a YaRN.
/// \param absent  what stands for one that the file lacks, but for the factor and the length, which must be there;
///                null: nothing does
inline void compare_yarn_field(FieldComparison& fields, const std::string& scaling, std::string_view name,
                               const json& wanted, const Yarn* absent) {
  const std::string field = scaling + "." + std::string(name);
  const json found = fields.find(field);
  json instead = nullptr;
  if (absent != nullptr && name != "factor" && name != "original_max_position_embeddings") {
    visit_yarn_fields(*absent,
                      [&](std::string_view other, auto value) { instead = other == name ? json(value) : instead; });
  }
  if (!found.is_null() || instead.is_null()) {
    if (found != wanted) fields.note(field, field_text(found), field_text(wanted));
  } else if (instead != wanted) {
    fields.note(field, "nothing, which stands for " + field_text(instead), field_text(wanted));
  }
}

/// \param mscale  whether mscale and mscale_all_dim matter
inline void compare_rope_scaling(FieldComparison& fields, const std::optional<Yarn>& wanted, bool mscale,
                                 const Yarn* absent) {
  const RopeScaling found = find_rope_scaling(fields);
  const std::string type_field = found.field + ".rope_type";
  if (!scales_rope(found.value)) {
    if (wanted) fields.note(found.field, field_text(found.value), "a yarn");
    return;
  }
  if (!found.value.is_object()) return fields.note(found.field, field_text(found.value), wanted ? "a yarn" : "nothing");
  const json type = rope_type(found.value);
  if (type != "default" && type != "yarn") {
    fields.note(type_field, field_text(type), "default or yarn");
  } else if ((type == "yarn") != wanted.has_value()) {
    fields.note(type_field, field_text(type), wanted ? "\"yarn\"" : "\"default\"");
  } else if (!wanted) {
    fields.if_there(found.field + ".factor", 1);  // engines go by the fields, whatever type is named
  }
  refuse_other_rope_fields(fields, found);
  if (!wanted || type != "yarn") return;
  visit_yarn_fields(*wanted, [&](std::string_view name, auto value) {
    if (mscale || name.substr(0, 6) != "mscale") compare_yarn_field(fields, found.field, name, value, absent);
  });
}

/// \param mscale  whether mscale and mscale_all_dim matter
/// \param absent  what stands for fields of a YaRN that the file lacks; null: nothing does
inline void compare_rope_with(FieldComparison& fields, const std::optional<Yarn>& yarn, double theta,
                              bool mscale = true, const Yarn* absent = nullptr) {
  compare_rope_theta(fields, theta);
  compare_rope_scaling(fields, yarn, mscale, absent);
  fields.if_there("partial_rotary_factor", 1);
  fields.if_there("rope_interleave", true);
}

}  // namespace detail

/// Notes where the file's rotary positions are not Config's. Nothing for a config without them.
template <class Config>
void compare_rope(detail::FieldComparison& fields) {
  if constexpr (!Config::mla_use_nope) {
    detail::compare_rope_with(fields, Config::rope_scaling, Config::rope_theta);
  }
}

/// What stands in rope_scaling; null for none. The type under both of its names.
inline json rope_scaling_json(const std::optional<Yarn>& yarn) {
  if (!yarn) return nullptr;
  json out{{"type", "yarn"}, {"rope_type", "yarn"}};
  visit_yarn_fields(*yarn, [&](const char* name, auto value) { out[name] = value; });
  return out;
}

/// Writes Config's rotary positions, if it has them.
template <class Config>
void set_rope(json& root) {
  if constexpr (!Config::mla_use_nope) {
    root["rope_theta"] = Config::rope_theta;
    root["rope_scaling"] = rope_scaling_json(Config::rope_scaling);
  }
}

}  // namespace K3SPEC_NAMESPACE::io
