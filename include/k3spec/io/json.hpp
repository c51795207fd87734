#pragma once
/// \file
/// JSON text to values. Read by RapidJSON, with what it lets pass refused: a key given twice, a byte-order mark, a NUL
/// byte, which it takes for the end, half a surrogate pair, and a number that no double holds. Nesting is bounded, too.
/// The work is linear in the text, but for looking up keys.
/// defines: io::parse_json
/// \see https://rapidjson.org

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/json_value.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// What of a value fits into a message.
inline std::string excerpt(const json& value) { return printable(value.dump(-1, Utf8::replace), 100); }

[[noreturn]] inline void throw_twice(const std::string& subject, const std::string& name) {
  throw Error(subject + ": '" + name + "'", "the name twice", "unique names");
}

/// The parser's events, handed on to Derived as few: `on_open(is_object)` and `on_close()` for objects and lists,
/// `on_key(name)` in objects, `on_value(value)` for all else, which may be taken.
template <class Derived>
class JsonEvents {
 public:
  explicit JsonEvents(std::string_view subject) : subject_(subject) {}

  /// \throws Error on text that is not JSON, or nested deeper than any file we read
  void parse(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") throw Error(subject_, "a byte-order mark", "JSON in UTF-8 without one");
    if (const auto at = text.find('\0'); at != std::string_view::npos) {
      throw Error(subject_, "a NUL byte at " + std::to_string(at), "text");
    }
    constexpr unsigned flags = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
    rapidjson::MemoryStream stream(text.data(), text.size());
    const auto result = rapidjson::Reader().Parse<flags>(stream, *this);
    if (!result.IsError()) return;
    const std::string_view before = text.substr(0, result.Offset());
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw Error(subject_,
                "a parse error at line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
                    rapidjson::GetParseError_En(result.Code()),
                "valid JSON in UTF-8");
  }

  // The parser calls these.
  bool Null() { return value(nullptr); }
  bool Bool(bool x) { return value(x); }
  bool RawNumber(const char* x, rapidjson::SizeType size, bool) { return value(number(std::string_view(x, size))); }
  // These only without the flag for numbers as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* x, rapidjson::SizeType size, bool) { return value(text(x, size)); }
  bool StartObject() { return open(true); }
  bool StartArray() { return open(false); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  bool Key(const char* x, rapidjson::SizeType size, bool) {
    std::string name = text(x, size);
    derived().on_key(name);
    return true;
  }

 protected:
  const std::string& subject() const { return subject_; }
  /// Objects and lists that are open, with the one that on_open is called for and without that of on_close.
  std::size_t depth() const { return depth_; }

 private:
  /// Far more than any file we read has; what later walks the value may recurse.
  static constexpr std::size_t max_depth = 64;

  Derived& derived() { return static_cast<Derived&>(*this); }
  /// The nearest double is the standard library's: RapidJSON's is off by a digit for some.
  /// \throws Error on a number that is too large or too small for a double
  json number(std::string_view text) const {
    const char *begin = text.data(), *end = begin + text.size();
    if (text.find_first_of(".eE") == std::string_view::npos) {
      std::uint64_t natural = 0;
      std::int64_t integer = 0;
      if (text[0] != '-' && std::from_chars(begin, end, natural).ec == std::errc()) return natural;
      if (text[0] == '-' && std::from_chars(begin, end, integer).ec == std::errc()) return integer;
    }
    double x = 0;
    const bool fits = std::from_chars(begin, end, x).ec == std::errc() && std::isfinite(x);
    if (!fits) throw Error(subject_, text, "numbers that a double can hold");
    return x;
  }
  /// \throws Error on what is no UTF-8: an escaped half of a surrogate pair
  std::string text(const char* x, std::size_t size) const {
    std::string_view rest(x, size);
    while (!rest.empty()) {
      const std::size_t length = k3spec::detail::utf8_length(rest);
      if (length == 0)
        throw Error(subject_, "half a surrogate pair in \"" + std::string(x, size) + "\"", "valid JSON in UTF-8");
      rest.remove_prefix(length);
    }
    return std::string(x, size);
  }
  bool value(json x) {
    derived().on_value(x);
    return true;
  }
  bool open(bool is_object) {
    if (++depth_ > max_depth) {
      throw Error(subject_, "values nested deeper", "at most " + std::to_string(max_depth) + " levels");
    }
    derived().on_open(is_object);
    return true;
  }
  bool close() {
    --depth_;
    derived().on_close();
    return true;
  }

  std::string subject_;
  std::size_t depth_ = 0;
};

/// Keeps everything.
class JsonBuilder : public JsonEvents<JsonBuilder> {
 public:
  using JsonEvents::JsonEvents;

  json take() { return std::move(root_); }

  void on_value(json& x) { place(std::move(x)); }
  void on_open(bool is_object) { open_.push_back(&place(is_object ? json::object() : json::array())); }
  void on_close() { open_.pop_back(); }
  void on_key(std::string& name) {
    const auto [at, is_new] = open_.back()->items().try_emplace(std::move(name));
    if (!is_new) throw_twice(subject(), at->first);
    member_ = &at->second;
  }

 private:
  json& place(json x) {
    if (open_.empty()) return root_ = std::move(x);
    if (open_.back()->is_object()) return *member_ = std::move(x);
    open_.back()->elements().push_back(std::move(x));
    return open_.back()->elements().back();
  }

  json root_;
  json* member_ = nullptr;  ///< of the innermost object: the last key's
  std::vector<json*> open_;
};

}  // namespace detail

/// Reads JSON.
/// \param subject  what the text is, for messages
/// \throws Error on text that is not JSON, and on a key that one object has twice
inline json parse_json(std::string_view text, std::string_view subject) {
  detail::JsonBuilder builder(subject);
  builder.parse(text);
  return builder.take();
}

}  // namespace K3SPEC_NAMESPACE::io
