#pragma once
/// \file
/// A run's settings as a checkpoint has them: numbers, truths and names, but for a number of steps that is not fixed
/// and a number that is absent (null) and what is infinite ("infinity").
/// defines: settings_json, settings_from_json

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/io/config_json.hpp>
#include <k3spec/run/train_settings.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

inline constexpr const char* infinity_word = "infinity";

/// A visitor of settings: puts each into JSON.
struct WriteSetting {
  io::json& j;

  template <class T>
  void operator()(const char* name, const T& value) const {
    if constexpr (std::is_enum_v<T>) {
      j[name] = io::detail::value_name(value);
    } else {
      j[name] = value;
    }
  }
  template <class T>
  void operator()(const char* name, const T& value, const Range<T>&) const {
    if constexpr (std::is_floating_point_v<T>) {
      j[name] = std::isfinite(value) ? io::json(value) : io::json(infinity_word);
    } else {
      j[name] = value;
    }
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value, const Range<T>&) const {
    j[name] = value ? io::json(*value) : io::json(nullptr);
  }
  template <class T, class Word>
  void operator()(const char* name, const T& value, const Range<T>&, const Word& word) const {
    j[name] = value == word.value ? io::json(nullptr) : io::json(value);
  }
};

/// A visitor of settings: takes each from JSON. No value is converted to another type: 8.9 windows are an error, not 8.
struct ReadSetting {
  const io::json& j;
  const std::string& subject;

  void operator()(const char* name, bool& value) const {
    const io::json& found = at(name);
    if (!found.is_boolean()) fail(name, found, "true or false");
    value = found.get<bool>();
  }
  /// None in a checkpoint made before there were any.
  void operator()(const char* name, std::vector<std::string>& values) const {
    values.clear();
    if (j.is_object() && !j.contains(name)) return;
    if (!at(name).is_array()) fail(name, at(name), "a list of texts");
    for (const io::json& value : at(name)) {
      if (!value.is_string()) fail(name, value, "a text");
      values.push_back(value.get<std::string>());
    }
  }
  template <class E>
    requires std::is_enum_v<E>
  void operator()(const char* name, E& value) const {
    const auto known = io::detail::named_value<E>(at(name));
    if (!known) fail(name, at(name), io::detail::all_names<E>());
    value = *known;
  }
  void operator()(const char* name, index_t& value, const Range<index_t>&) const {
    const io::json& found = at(name);
    if (!is_index(found)) fail(name, found, "an integer");
    value = found.get<index_t>();
  }
  void operator()(const char* name, std::uint64_t& value, const Range<std::uint64_t>&) const {
    const io::json& found = at(name);
    if (!found.is_number_unsigned() && !(is_index(found) && found.get<index_t>() >= 0)) {
      fail(name, found, "an integer of 0 to 2^64 - 1");
    }
    value = found.get<std::uint64_t>();
  }
  void operator()(const char* name, double& value, const Range<double>& range) const {
    const io::json& found = at(name);
    if (range.most == std::numeric_limits<double>::infinity() && found == infinity_word) {
      value = range.most;
      return;
    }
    if (!found.is_number()) fail(name, found, "a number");
    value = found.get<double>();
    if (std::isinf(value)) fail(name, found, std::string("a number that is in range, or \"") + infinity_word + '"');
  }
  /// None where the file has null, or was made before there was such a setting.
  template <class T>
  void operator()(const char* name, std::optional<T>& value, const Range<T>& range) const {
    value.reset();
    if ((j.is_object() && !j.contains(name)) || at(name).is_null()) return;
    (*this)(name, value.emplace(), range);
  }
  /// The word's value where the file has null, and only there.
  template <class T, class Word>
  void operator()(const char* name, T& value, const Range<T>& range, const Word& word) const {
    if (at(name).is_null()) {
      value = word.value;
      return;
    }
    (*this)(name, value, range);
    if (value == word.value) fail(name, at(name), "a number that is in range, or null");
  }

 private:
  static bool is_index(const io::json& found) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<index_t>::max());
    return found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > most);
  }
  [[noreturn]] void fail(const char* name, const io::json& found, const std::string& wanted) const {
    throw Error(subject + ": " + name, io::detail::excerpt(found), wanted);
  }
  const io::json& at(const char* name) const {
    const auto found = j.is_object() ? j.find(name) : j.end();
    if (found == j.end()) throw Error(subject + ": " + name, "nothing", "the setting it was written with");
    return *found;
  }
};

}  // namespace detail

/// The settings by their names.
inline io::json settings_json(const TrainSettings& settings) {
  io::json j;
  TrainSettings::visit(settings, detail::WriteSetting{j});
  return j;
}

/// Reads settings from a checkpoint's JSON.
/// \param subject  what the JSON is, for messages
/// \throws Error naming the setting that is absent, of another type or out of range
inline TrainSettings settings_from_json(const io::json& j, const std::string& subject) {
  TrainSettings s;
  TrainSettings::visit(s, detail::ReadSetting{j, subject});
  try {
    s.check();
  } catch (const Error& e) {
    throw e.within(subject);
  }
  return s;
}

}  // namespace K3SPEC_NAMESPACE
