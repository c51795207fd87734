#pragma once
/// \file
/// Fields of a config.json against those wanted: all that differs is said at once.
/// defines: io::read_json, io::text_config, io::Differences, io::detail::FieldComparison, io::detail::throw_differences

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <k3spec/config/conventions.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE::io {

/// Reads a JSON file.
/// \throws Error when the file cannot be read or is not JSON
inline json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

/// Where a model's fields are: under `text_config` when the model is more than text, else at the top.
inline const json& text_config(const json& root) {
  const auto at = root.is_object() ? root.find("text_config") : root.end();
  return at != root.end() && at->is_object() ? *at : root;
}

/// One line for each difference: "hidden_size: found 128, wanted 7168".
using Differences = std::vector<std::string>;

namespace detail {

/// The value of a named convention, or none when the name is not known.
template <class E>
std::optional<E> named_value(const json& name) {
  for (std::size_t i = 0; i < names_of<E>.size(); ++i) {
    if (name == names_of<E>[i]) return static_cast<E>(i);
  }
  return std::nullopt;
}

template <class E>
std::string value_name(E value) {
  return std::string(names_of<E>[static_cast<std::size_t>(value)]);
}

template <class E>
std::string all_names() {
  std::string text;
  for (const auto name : names_of<E>) text.append(text.empty() ? "" : " or ").append(name);
  return text;
}

template <class T>
json field_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return value_name(value);
  } else {
    return json(value);
  }
}
template <class T>
json field_value(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

inline std::string field_text(const json& value) { return value.is_null() ? "nothing" : excerpt(value); }

/// The value at a dotted name; null when there is none.
inline json find_field(const json& config, std::string_view name) {
  const json* at = &config;
  while (true) {
    const std::size_t dot = name.find('.');
    const auto next = at->is_object() ? at->find(name.substr(0, dot)) : at->end();
    if (next == at->end()) return nullptr;
    at = &*next;
    if (dot == std::string_view::npos) return *at;
    name.remove_prefix(dot + 1);
  }
}

/// A field of a model: what its text_config says of it, else what stands at the top, where alone some have token ids.
/// Whoever looks for a field looks here, so that a file that contradicts itself is used as it was checked.
inline json find_in_model(const json& root, std::string_view name) {
  const json found = find_field(text_config(root), name);
  return found.is_null() ? find_field(root, name) : found;
}

/// An integer that index_t holds; else none.
inline std::optional<index_t> as_index(const json& value) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<index_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > largest)) {
    return std::nullopt;
  }
  return value.get<index_t>();
}

/// Sets the value at a dotted name.
inline void set_field(json& config, std::string_view name, const json& value) {
  const std::size_t dot = name.find('.');
  json& at = config[std::string(name.substr(0, dot))];
  if (dot == std::string_view::npos) {
    at = value;
  } else {
    set_field(at, name.substr(dot + 1), value);
  }
}

/// Compares fields of one config.json, keeping what differs and which fields were asked for.
struct FieldComparison {
  const json& root;
  Differences differences = {};
  mutable std::set<std::string, std::less<>> asked = {};

  void note(std::string_view field, const std::string& found, const std::string& wanted) {
    // A file may have given its names to fields, as long as it likes.
    differences.push_back(printable(std::string(field) + ": found " + found + ", wanted " + wanted, 500));
  }
  /// A field that is looked at elsewhere.
  void know(std::string_view field) const { asked.emplace(field); }
  json find(std::string_view field) const {
    know(field);
    return find_in_model(root, field);
  }
  template <class T>
  void operator()(std::string_view field, const T& value) {
    compare(field, find(field), value);
  }
  /// The same, of a value that was found elsewhere.
  template <class T>
  void compare(std::string_view field, const json& found, const T& value) {
    const json wanted = field_value(value);
    // Of several tokens that end a text, a config names one.
    if (field == "eos_token_id" && found.is_array() && std::find(found.begin(), found.end(), wanted) != found.end())
      return;
    if (found != wanted) note(field, field_text(found), field_text(wanted));
  }
  /// What the code takes for granted; a file that does not mention it is fine.
  void if_there(std::string_view field, const json& wanted) {
    const json found = find(field);
    if (!found.is_null() && found != wanted) note(field, field_text(found), field_text(wanted));
  }
};

/// \param what  of the differences, behind their number
inline void throw_differences(std::string_view subject, const Differences& differences,
                              std::string_view what = " differences from the config compiled in") {
  if (differences.empty()) return;
  constexpr std::size_t most = 12000;  // bytes; more than all fields of a config take
  std::string lines = "none:";
  std::size_t said = 0;
  for (; said < differences.size() && lines.size() + differences[said].size() < most; ++said) {
    lines.append("\n  ").append(differences[said]);
  }
  if (said < differences.size()) lines += "\n  and " + std::to_string(differences.size() - said) + " more";
  throw Error(subject, std::to_string(differences.size()).append(what), lines);
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE::io
