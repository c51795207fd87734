#pragma once
/// \file
/// JSON text to values, with the one thing the parser lets pass refused: a key given twice.
/// Nesting is bounded, too.
/// defines: io::json, io::parse_json

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <k3spec/core/error.hpp>

namespace k3spec::io {

using json = nlohmann::json;

namespace detail {

/// Sees every key as it is parsed; the parser itself would keep the last of two equal ones without a word.
class UniqueKeys {
 public:
  explicit UniqueKeys(std::string_view subject) : subject_(subject) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth)
      throw Error(subject_, "values nested deeper", "at most " + std::to_string(max_depth) + " levels");
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second) {
      throw Error(subject_ + ": '" + value.get<std::string>() + "'", "the name twice", "unique names");
    }
    return true;
  }

 private:
  /// Far more than any file we read has; what later walks the value may recurse.
  static constexpr int max_depth = 64;

  std::string subject_;
  std::vector<std::set<std::string>> open_;
};

/// What of a value fits into a message.
inline std::string excerpt(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 100) text.replace(100, std::string::npos, "...");
  return text;
}

}  // namespace detail

/// \param subject  what the text is, for messages
/// \throws Error on text that is not JSON, and on a key that one object has twice
inline json parse_json(std::string_view text, std::string_view subject) {
  try {
    return json::parse(text.begin(), text.end(), detail::UniqueKeys(subject));
  } catch (const json::exception& e) {
    throw Error(subject, e.what(), "valid JSON");
  }
}

}  // namespace k3spec::io
