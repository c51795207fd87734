#pragma once
/// \file
/// The command line of a program. CLI11 finds the flags and prints the help; what their values may be, and what is said
/// of those that are not, is one thing for all programs.
/// defines: Arguments

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/format.hpp>

#include "values.hpp"

namespace k3spec::examples {

/// The name of an enumeration's value.
template <class E>
std::string name_of(E value) {
  return std::string(names_of<E>[static_cast<std::size_t>(value)]);
}

class Arguments {
 public:
  using Values = std::span<const std::string>;
  using Take = std::function<void(const std::string& flag, Values)>;
  enum class Times { once, several };

  /// \param about    what the program does
  /// \param version  what --version prints
  Arguments(const std::string& about, const std::string& version) : app_(about) {
    app_.set_version_flag("--version", version, "Print the version, and the instructions that this was built for")
        ->disable_flag_override();
    app_.get_help_ptr()->disable_flag_override();
    app_.allow_extras();  // told below, in our words
    app_.footer(
        "Exit status: 0 done; 1 refused for what was found in files or on the machine, or failed; 2 a command line "
        "that\n"
        "cannot be meant; 128 + n ended by signal n. What is refused is one line on standard error: what, found, "
        "wanted.");
  }

  void add_to_footer(const std::string& text) { app_.footer(app_.get_footer() + '\n' + text); }

  /// A flag or, without dashes, a positional argument. \param count  values that go together each time
  CLI::Option* add(const std::string& name, const std::string& type, const std::string& help, Take take,
                   Times times = Times::once, int count = 1) {
    CLI::Option* option = app_.add_option(
        name, [](const CLI::results_t&) { return true; }, help);
    option->type_name(type)->type_size(count)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    const bool many = name[0] != '-' && times == Times::several;  // one behind the other
    option->expected(1, many ? CLI::detail::expected_max_vector_size : 1)->allow_extra_args(many);
    entries_.push_back({option, std::move(take), times, static_cast<std::size_t>(count)});
    return option;
  }

  /// A number. Of an optional one, or of several, nothing is known before.
  template <class T>
  CLI::Option* number(const std::string& name, T& value, const Range<T>& range, const std::string& help) {
    return number_flag(name, range, help, [&value](T x) { value = x; })->default_str(fmt::format("{}", value));
  }
  template <class T>
  CLI::Option* number(const std::string& name, std::optional<T>& value, const Range<T>& range,
                      const std::string& help) {
    return number_flag(name, range, help, [&value](T x) { value = x; });
  }
  template <class T>
  CLI::Option* number(const std::string& name, std::vector<T>& values, const Range<T>& range, const std::string& help) {
    return number_flag(
        name, range, help, [&values](T x) { values.push_back(x); }, Times::several);
  }
  /// Several numbers with commas between them.
  template <class T>
  CLI::Option* list(const std::string& name, std::vector<T>& values, const Range<T>& range, const std::string& help) {
    return add(name, "N,N,...", help,
               [&values, range](const std::string& flag, Values v) { values = parse_numbers(flag, v[0], range); });
  }

  /// A path, or anything made of a text that is not empty.
  CLI::Option* path(const std::string& name, std::filesystem::path& value, const std::string& help) {
    CLI::Option* option = path_flag(name, help, [&value](const std::string& s) { value = s; });
    return value.empty() ? option : option->default_str(value.string());
  }
  CLI::Option* path(const std::string& name, std::optional<std::filesystem::path>& value, const std::string& help) {
    return path_flag(name, help, [&value](const std::string& s) { value = s; });
  }
  CLI::Option* path(const std::string& name, std::vector<std::filesystem::path>& values, const std::string& help) {
    return path_flag(
        name, help, [&values](const std::string& s) { values.emplace_back(s); }, Times::several);
  }
  /// Paths with something before them, which is for the caller to tell apart.
  CLI::Option* paths(const std::string& name, std::vector<std::string>& values, const std::string& help) {
    return path_flag(
        name, help, [&values](const std::string& s) { values.push_back(s); }, Times::several);
  }
  /// Any text, also one like a flag's name.
  CLI::Option* text(const std::string& name, std::string& value, const std::string& help) {
    CLI::Option* option = add(name, "TEXT", help, [&value](const std::string&, Values v) { value = v[0]; });
    entries_.back().any_text = true;
    return option;
  }
  /// The same of several.
  CLI::Option* texts(const std::string& name, std::vector<std::string>& values, const std::string& help) {
    CLI::Option* option = add(
        name, "TEXT", help, [&values](const std::string&, Values v) { values.push_back(v[0]); }, Times::several);
    entries_.back().any_text = true;
    return option;
  }

  /// One of some names.
  CLI::Option* one_of(const std::string& name, std::string& value, std::vector<std::string> names,
                      const std::string& help) {
    CLI::Option* option =
        add(name, fmt::format("{{{}}}", joined(names, ",")), help,
            [&value, names](const std::string& flag, Values v) { value = names[place_among(flag, v[0], names)]; });
    return value.empty() ? option : option->default_str(value);
  }
  /// One of an enumeration's names.
  template <class E>
  CLI::Option* named(const std::string& name, E& value, const std::string& help) {
    const std::vector<std::string> names(names_of<E>.begin(), names_of<E>.end());
    const auto take = [&value, names](const std::string& flag, Values v) {
      value = static_cast<E>(place_among(flag, v[0], names));
    };
    return add(name, fmt::format("{{{}}}", joined(names, ",")), help, take)->default_str(name_of(value));
  }

  /// A flag without a value, which sets `value` to what `given` says.
  CLI::Option* toggle(const std::string& name, bool& value, const std::string& help, bool given = true) {
    CLI::Option* option = app_.add_flag(name, help)->disable_flag_override();
    entries_.push_back({option, [&value, given](const std::string&, Values) { value = given; }, Times::once, 1});
    return option;
  }

  /// Reads the command line and fills what was added.
  /// \throws UsageError, and CLI::Success when help or version were asked for
  void parse(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) refuse_empty(argv[i]);
    std::vector<std::string> given(argv, argv + argc);
    std::vector<const char*> pointers;
    for (std::string& argument : given) {
      if (is_bracketed(argument)) argument.insert(0, no_list);
      pointers.push_back(argument.c_str());
    }
    try {
      app_.parse(argc, pointers.data());
    } catch (const CLI::Success&) {
      throw;
    } catch (const CLI::RequiredError&) {  // told below
    } catch (const CLI::ParseError& e) {
      refuse_swallowed();
      refuse(e);
    }
    refuse_swallowed();
    for (const std::string& extra : app_.remaining()) refuse_unknown(as_given(extra));
    for (const Entry& e : entries_) take(e);
  }

  /// Prints the help or the version. \returns the exit status
  int show(const CLI::Success& what) const { return app_.exit(what); }

 private:
  struct Entry {
    CLI::Option* option;
    Take take;
    Times times;
    std::size_t count;  ///< values each time
    bool any_text = false;
  };

  template <class T, class F>
  CLI::Option* number_flag(const std::string& name, const Range<T>& range, const std::string& help, F set,
                           Times times = Times::once) {
    const std::string words = range.words();
    const bool plain = words == "a number" || words == "a whole number";
    return add(
        name, std::is_integral_v<T> ? "INT" : "FLOAT", plain ? help : fmt::format("{}; {}", help, words),
        [set, range](const std::string& flag, Values v) { set(parse_number(flag, v[0], range)); }, times);
  }

  template <class F>
  CLI::Option* path_flag(const std::string& name, const std::string& help, F set, Times times = Times::once) {
    const auto take = [set](const std::string& flag, Values v) {
      if (v[0].empty()) throw UsageError(flag, shown_value(v[0]), "a path");
      set(v[0]);
    };
    return add(name, "PATH", help, take, times);
  }

  static std::string joined(const std::vector<std::string>& names, const char* between) {
    std::string all;
    for (const std::string& name : names) all.append(all.empty() ? "" : between).append(name);
    return all;
  }

  static std::size_t place_among(const std::string& flag, const std::string& value,
                                 const std::vector<std::string>& names) {
    const auto at = std::find(names.begin(), names.end(), value);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    throw UsageError(flag, shown_value(value), fmt::format("one of {}", joined(names, ", ")));
  }

  /// Before what CLI11 would take for a list: "[a,b]".
  static constexpr const char* no_list = "\x1f";
  static bool is_bracketed(const std::string& text) {
    return text.size() > 1 && text.front() == '[' && text.back() == ']';
  }
  static std::string as_given(const std::string& value) {
    return value[0] == *no_list && is_bracketed(value.substr(1)) ? value.substr(1) : value;
  }

  bool is_flag(const std::string& text) const {
    return text.size() > 1 && text[0] == '-' && app_.get_option_no_throw(text) != nullptr;
  }

  /// "--steps=", for which CLI11 would take the next argument.
  void refuse_empty(const std::string& argument) const {
    if (argument.size() < 2 || argument.back() != '=') return;
    const std::string name = argument.substr(0, argument.size() - 1);
    if (is_flag(name)) throw UsageError(name, shown_value(""), "a value");
  }
  /// A value that is a flag: its own is missing.
  void refuse_swallowed() const {
    for (const Entry& e : entries_) {
      if (e.any_text) continue;
      for (const std::string& value : e.option->results()) {
        if (is_flag(value)) throw UsageError(e.option->get_name(), "no value before " + value, "a value");
      }
    }
  }
  void refuse_unknown(const std::string& extra) const {
    if (extra.size() < 2 || extra[0] != '-') {
      throw UsageError(shown_value(extra), "an argument that belongs to no flag", "flags, which --help names");
    }
    throw UsageError(printable(extra.substr(0, extra.find('=')), 80), "a flag that is not known",
                     "one that --help names");
  }
  /// CLI11's own words, which begin with the flag.
  [[noreturn]] static void refuse(const CLI::ParseError& e) {
    const std::string text = e.what(), word = text.substr(0, text.find_first_of(": "));
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) == nullptr) {
      throw UsageError("arguments", printable(text, 200), "what --help describes");
    }
    const bool missing = text.find("missing") != std::string::npos;
    throw UsageError(word[0] == '-' ? word : "--" + word, missing ? "no value" : "a value",
                     missing ? "one" : "none: it has no value");
  }

  void take(const Entry& e) const {
    const std::string name = e.option->get_name();
    const std::size_t times = e.option->count() / e.count;
    if (times == 0 && e.option->get_required()) throw UsageError(name, "nothing", e.option->get_description());
    if (times > 1 && e.times == Times::once) throw UsageError(name, fmt::format("it {} times", times), "it once");
    std::vector<std::string> values;
    for (const std::string& value : e.option->results()) values.push_back(as_given(value));
    for (std::size_t i = 0; i < times; ++i) e.take(name, Values(values).subspan(i * e.count, e.count));
  }

  CLI::App app_;
  std::vector<Entry> entries_;
};

}  // namespace k3spec::examples
