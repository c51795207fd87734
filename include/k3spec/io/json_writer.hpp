#pragma once
/// \file
/// JSON values as text.
/// defines: io::detail::JsonWriter

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <k3spec/io/json_text.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// Writes values behind a text.
struct JsonWriter {
  std::string& out;
  int indent;  ///< spaces for each level, one value a line; negative: all in one line
  Utf8 utf8;

  /// \throws Error on a string that is not UTF-8, when `utf8` is strict
  template <class Json>
  void write(const Json& value, int level = 0) const {
    if (value.is_null()) out += "null";
    if (value.is_boolean()) out += value.template get<bool>() ? "true" : "false";
    if (value.is_number_unsigned()) {
      out += std::to_string(value.template get<std::uint64_t>());
    } else if (value.is_number_integer()) {
      out += std::to_string(value.template get<std::int64_t>());
    }
    if (value.is_number_float()) append_number(out, value.template get<double>());
    if (value.is_string()) append_string(out, value.text(), utf8);
    if (value.is_array()) write_list(value.elements(), level);
    if (value.is_object()) write_object(value.items(), level);
  }

 private:
  void begin_line(int level) const {
    if (indent >= 0) out.append("\n").append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  }
  template <class List>
  void write_list(const List& list, int level) const {
    out += '[';
    for (bool first = true; const auto& value : list) {
      if (!std::exchange(first, false)) out += ',';
      begin_line(level + 1);
      write(value, level + 1);
    }
    if (!list.empty()) begin_line(level);
    out += ']';
  }
  template <class Object>
  void write_object(const Object& object, int level) const {
    out += '{';
    for (bool first = true; const auto& [name, value] : object) {
      if (!std::exchange(first, false)) out += ',';
      begin_line(level + 1);
      append_string(out, name, utf8);
      out += indent >= 0 ? ": " : ":";
      write(value, level + 1);
    }
    if (!object.empty()) begin_line(level);
    out += '}';
  }
};

}  // namespace K3SPEC_NAMESPACE::io::detail
