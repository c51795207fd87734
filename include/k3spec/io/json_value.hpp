#pragma once
/// \file
/// A JSON value: null, a truth, a number, a string, a list or an object with its names in order. Written like one:
/// ```cpp
/// const io::json rope{{"type", "yarn"}}, config{{"hidden_size", 128}, {"layer_ids", {1, 3, 4}}, {"rope", rope}};
/// ```
/// A list of pairs that begin with a string is an object. Numbers are int64, uint64 or double, as they were given;
/// whole ones are equal when their values are, others when they are as doubles.
/// defines: io::json

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/io/json_text.hpp>
#include <k3spec/io/json_type.hpp>
#include <k3spec/io/json_writer.hpp>

namespace K3SPEC_NAMESPACE::io {

class json;

namespace detail {

/// Whose elements become a list or, of a map, an object.
template <class T>
concept JsonContainer = !std::same_as<T, json> && !std::same_as<typename T::value_type, char> &&
                        std::input_iterator<typename T::const_iterator>;
/// What a name may consist of: a pointer to anything would also take the place 0.
template <class T>
concept JsonCharacter = std::is_same_v < std::remove_const_t<T>,
char > ;
/// What a JSON value can be made of.
template <class T>
concept JsonWritable = std::is_constructible_v<json, const T&>;
/// What is compared as the value that it would make.
template <class T>
concept JsonEqual = !std::same_as<T, json> && JsonWritable<T>;

}  // namespace detail

/// A JSON value.
class json {
 public:
  using array_t = std::vector<json>;
  using object_t = std::map<std::string, json, std::less<>>;

  json() = default;
  json(std::nullptr_t) {}
  template <detail::JsonNumber T>
  json(T x) : type_(detail::json_type_of<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      value_.boolean = x;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_.real = static_cast<double>(x);
    } else if constexpr (std::is_signed_v<T>) {
      value_.integer = x;
    } else {
      value_.natural = x;
    }
  }
  json(std::string text) : type_(Type::string) { value_.string = new std::string(std::move(text)); }
  json(std::string_view text) : json(std::string(text)) {}
  json(const char* text) : json(std::string(text)) {}
  json(array_t list) : type_(Type::array) { value_.array = new array_t(std::move(list)); }
  json(object_t members) : type_(Type::object) { value_.object = new object_t(std::move(members)); }
  /// A list of the elements, or of a map an object.
  template <detail::JsonContainer C>
  json(const C& all) : json() {  // whole from here on: what throws below leaves nothing behind
    if constexpr (requires { typename C::mapped_type; }) {
      *this = object();
      for (const auto& [name, value] : all) value_.object->emplace(name, value);
    } else {
      *this = array();
      for (const auto& value : all) value_.array->emplace_back(value);
    }
  }
  json(std::initializer_list<json> all) : json(array(all)) {
    for (const json& pair : all) {
      if (!pair.is_array() || pair.size() != 2 || !(*pair.value_.array)[0].is_string()) return;
    }
    *this = object();
    for (const json& pair : all)
      value_.object->emplace(*(*pair.value_.array)[0].value_.string, (*pair.value_.array)[1]);
  }
  static json array(std::initializer_list<json> all = {}) { return json(array_t(all)); }
  static json object() { return json(object_t()); }

  json(const json& other) { copy(other); }
  json(json&& other) noexcept { swap(other); }
  json& operator=(const json& other) { return *this = json(other); }
  json& operator=(json&& other) noexcept {
    json old(std::move(other));
    swap(old);
    return *this;
  }
  ~json() {
    if (type_ >= Type::string) destroy();
  }

  bool is_null() const { return type_ == Type::null; }
  bool is_boolean() const { return type_ == Type::boolean; }
  /// Without a fraction: int64 or uint64.
  bool is_number_integer() const { return type_ == Type::integer || type_ == Type::unsigned_integer; }
  bool is_number_unsigned() const { return type_ == Type::unsigned_integer; }
  bool is_number_float() const { return type_ == Type::real; }
  bool is_number() const { return is_number_integer() || is_number_float(); }
  bool is_string() const { return type_ == Type::string; }
  bool is_array() const { return type_ == Type::array; }
  bool is_object() const { return type_ == Type::object; }
  const char* type_name() const { return detail::json_type_names[static_cast<std::size_t>(type_)]; }

  /// A number is converted as static_cast does, nothing else is.
  /// \throws Error on a value of another kind, and on a double without a whole part that an integer T holds
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, bool>) {
      need(Type::boolean);
      return value_.boolean;
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (is_number_float()) return detail::json_number<T>(value_.real);
      if (is_number_unsigned()) return static_cast<T>(value_.natural);
      need(Type::integer);
      return static_cast<T>(value_.integer);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return text();
    } else {
      T out;
      for (const json& value : elements()) out.push_back(value.get<typename T::value_type>());
      return out;
    }
  }
  template <detail::JsonNumber T>
  operator T() const {
    return get<T>();
  }

  /// What a string, a list or an object has. \throws Error on a value of another kind
  const std::string& text() const { return need(Type::string), *value_.string; }
  std::string& text() { return need(Type::string), *value_.string; }
  const array_t& elements() const { return need(Type::array), *value_.array; }
  array_t& elements() { return need(Type::array), *value_.array; }
  const object_t& items() const { return need(Type::object), *value_.object; }
  object_t& items() { return need(Type::object), *value_.object; }

  /// Of a list; what is none has elements to no loop. An object's are in items().
  const json* begin() const { return elements().data(); }
  json* begin() { return elements().data(); }
  /// Behind a list's last element; else what find returns for a name that is not there.
  const json* end() const { return is_array() ? value_.array->data() + value_.array->size() : nullptr; }
  json* end() { return is_array() ? value_.array->data() + value_.array->size() : nullptr; }

  /// Of a list or an object; 0 of null, else 1.
  std::size_t size() const {
    return is_array() ? value_.array->size() : is_object() ? value_.object->size() : is_null() ? 0 : 1;
  }
  bool empty() const { return size() == 0; }

  /// The value of a name, or end() where there is none or this is no object.
  const json* find(std::string_view name) const {
    if (!is_object()) return end();
    const auto at = value_.object->find(name);
    return at == value_.object->end() ? nullptr : &at->second;
  }
  bool contains(std::string_view name) const { return is_object() && find(name) != nullptr; }
  /// The value of a name, or another where there is none.
  template <class T>
  T value(std::string_view name, const T& absent) const {
    return contains(name) ? find(name)->get<T>() : absent;
  }
  /// The value of a name, or an element of a list. \throws Error when there is none
  const json& at(std::string_view name) const {
    const json* value = is_object() ? find(name) : nullptr;
    if (value == nullptr) throw Error("JSON: " + std::string(name), "nothing", "a value");
    return *value;
  }
  const json& at(std::size_t i) const {
    if (i >= elements().size()) throw Error("JSON list", std::to_string(size()) + " elements", "more");
    return (*value_.array)[i];
  }

  /// The value of a name, which is there from now on; null becomes an object.
  json& operator[](const std::string& name) {
    if (is_null()) *this = object();
    return items()[name];
  }
  template <detail::JsonCharacter C>
  json& operator[](C* name) {
    return (*this)[std::string(name)];
  }
  json& operator[](std::string_view name) { return (*this)[std::string(name)]; }
  json& operator[](std::size_t i) { return const_cast<json&>(at(i)); }
  template <detail::JsonCharacter C>
  const json& operator[](C* name) const {
    return at(name);
  }
  const json& operator[](std::string_view name) const { return at(name); }
  const json& operator[](std::size_t i) const { return at(i); }

  /// Null becomes a list.
  void push_back(json value) {
    if (is_null()) *this = array();
    elements().push_back(std::move(value));
  }
  std::size_t erase(const std::string& name) { return items().erase(name); }
  /// Takes over another object's values. \throws Error unless both are objects
  /// \param other  a copy: it may be a part of this one, which goes
  void update(json other) {
    for (auto& [name, value] : other.items()) items()[name] = std::move(value);
  }

  /// The value's text.
  /// \param indent  spaces for each level, one value a line; negative: all in one line
  /// \throws Error on a string that is not UTF-8, when `utf8` is strict
  std::string dump(int indent = -1, Utf8 utf8 = Utf8::strict) const {
    std::string out;
    detail::JsonWriter{out, indent, utf8}.write(*this);
    return out;
  }

  friend bool operator==(const json& a, const json& b) {
    if (a.is_number() && b.is_number()) return same_number(a, b);
    if (a.type_ != b.type_) return false;
    if (a.is_boolean()) return a.value_.boolean == b.value_.boolean;
    if (a.is_string()) return *a.value_.string == *b.value_.string;
    if (a.is_array()) return *a.value_.array == *b.value_.array;
    return a.is_null() || *a.value_.object == *b.value_.object;
  }
  template <detail::JsonEqual T>
  friend bool operator==(const json& a, const T& b) {
    return a == json(b);
  }

 private:
  using Type = detail::JsonType;

  void need(Type type) const {
    if (type_ == type) return;
    throw Error("JSON value", dump(-1, Utf8::replace), detail::json_types_wanted[static_cast<std::size_t>(type)]);
  }

  static bool same_number(const json& a, const json& b) {
    if (a.is_number_float() || b.is_number_float()) return a.get<double>() == b.get<double>();
    const bool same_sign =
        (a.type_ == Type::integer && a.value_.integer < 0) == (b.type_ == Type::integer && b.value_.integer < 0);
    return same_sign && a.get<std::uint64_t>() == b.get<std::uint64_t>();
  }

  void swap(json& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(value_, other.value_);
  }
  void copy(const json& other) {
    value_ = other.value_;
    if (other.is_string()) value_.string = new std::string(*other.value_.string);
    if (other.is_array()) value_.array = new array_t(*other.value_.array);
    if (other.is_object()) value_.object = new object_t(*other.value_.object);
    type_ = other.type_;
  }
  void destroy() {
    if (is_string()) delete value_.string;
    if (is_array()) delete value_.array;
    if (is_object()) delete value_.object;
  }

  union Value {
    std::uint64_t natural = 0;
    std::int64_t integer;
    double real;
    bool boolean;
    std::string* string;
    array_t* array;
    object_t* object;
  };

  Type type_ = Type::null;
  Value value_;
};

}  // namespace K3SPEC_NAMESPACE::io
