#pragma once
/// \file
/// A run's settings on the command line.
/// defines: add_setting_flags

#include <optional>
#include <string_view>
#include <type_traits>

#include "options.hpp"
#include "setting_flags.hpp"

namespace k3spec::examples {

namespace detail {

/// A visitor of settings: adds the flag of the one with a key.
struct AddSettingFlag {
  const SettingFlag& setting;
  Arguments& arguments;
  Options& o;

  template <class T>
  void operator()(std::string_view key, T& value) const {
    if (key != setting.key) return;
    if constexpr (std::is_enum_v<T>) {
      keep(arguments.named(setting.flag, value, setting.help));
    } else if constexpr (!std::is_same_v<T, bool>) {
      keep(arguments.texts(setting.flag, value, setting.help));
    } else {
      keep(arguments.toggle(setting.flag, value, setting.help));
    }
  }
  template <class T>
  void operator()(std::string_view key, T& value, const Range<T>& range) const {
    if (key == setting.key) keep(arguments.number(setting.flag, value, range, setting.help));
  }
  template <class T>
  void operator()(std::string_view key, std::optional<T>& value, const Range<T>& range) const {
    if (key == setting.key) keep(arguments.number(setting.flag, value, range, setting.help));
  }
  /// The value beside those in range has no flag: without the flag it is not known yet.
  template <class T, class Word>
  void operator()(std::string_view key, T& value, const Range<T>& range, const Word&) const {
    if (key == setting.key) keep(arguments.number(setting.flag, value, range, setting.help)->default_str(""));
  }

 private:
  void keep(CLI::Option* option) const {
    o.flags[setting.key] = option;
    o.names[setting.key] = option->get_name();
  }
};

}  // namespace detail

/// Adds them in their order, which --help has too.
inline void add_setting_flags(Arguments& arguments, Options& o) {
  for (const SettingFlag& setting : setting_flags) {
    TrainSettings::visit(o.settings, detail::AddSettingFlag{setting, arguments, o});
  }
}

}  // namespace k3spec::examples
