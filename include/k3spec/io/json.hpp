#pragma once
/// \file
/// JSON text to values, with what the parser lets pass refused: a key given twice, a byte-order mark, and a NUL byte,
/// which it takes for the end. Nesting is bounded, too. The work is linear in the text, but for looking up keys.
/// defines: io::json, io::parse_json

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE::io {

using json = nlohmann::json;

namespace detail {

/// What of a value fits into a message.
inline std::string excerpt(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 100);
}

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
    json::sax_parse(text.begin(), text.end(), this);
  }

  // The parser calls these.
  bool null() { return value(nullptr); }
  bool boolean(bool x) { return value(x); }
  bool number_integer(json::number_integer_t x) { return value(x); }
  bool number_unsigned(json::number_unsigned_t x) { return value(x); }
  bool number_float(json::number_float_t x, const std::string&) { return value(x); }
  bool string(std::string& x) { return value(std::move(x)); }
  bool binary(json::binary_t&) { return false; }  // no text has any
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    derived().on_key(name);
    return true;
  }
  [[noreturn]] bool parse_error(std::size_t, const std::string&, const json::exception& e) const {
    throw Error(subject_, e.what(), "valid JSON");
  }

 protected:
  const std::string& subject() const { return subject_; }
  /// Objects and lists that are open, with the one that on_open is called for and without that of on_close.
  std::size_t depth() const { return depth_; }

 private:
  /// Far more than any file we read has; what later walks the value may recurse.
  static constexpr std::size_t max_depth = 64;

  Derived& derived() { return static_cast<Derived&>(*this); }
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
    const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(std::move(name));
    if (!is_new) throw_twice(subject(), at->first);
    member_ = &at->second;
  }

 private:
  json& place(json x) {
    if (open_.empty()) return root_ = std::move(x);
    if (open_.back()->is_object()) return *member_ = std::move(x);
    open_.back()->push_back(std::move(x));
    return open_.back()->back();
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
