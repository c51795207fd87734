#pragma once
/// \file
/// Which values a number from outside may have: what checks it and what a message says of it are one thing.
/// defines: Range, CheckRange

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <k3spec/core/error.hpp>
#include <k3spec/core/format.hpp>

namespace K3SPEC_NAMESPACE {

/// From `least` to `most`. NaN is in no range, and infinity only in one whose `most` it is.
template <class T>
  requires std::integral<T> || std::floating_point<T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
  bool above = false;             ///< `least` itself is out
  bool below = false;             ///< `most` itself is out
  std::string_view meaning = "";  ///< said behind: what a value stands for

  constexpr bool contains(T x) const {
    return (above ? x > least : x >= least) && (below ? x < most : x <= most);  // both false of NaN
  }

  /// "1 to 16", "at least 1", "a number > 0"
  std::string words() const {
    const std::string text = !bounded() ? from() : above || below ? from() + to() : from() + " to " + number(most);
    return meaning.empty() ? text : fmt::format("{} ({})", text, meaning);
  }

  /// Refuses what is not in range.
  /// \throws Error unless `found` is in range
  void check(std::string_view subject, T found) const {
    if (!contains(found)) throw Error(subject, fmt::format("{}", found), words());
  }

  /// Whether there is a largest value of its own, not the type's.
  constexpr bool bounded() const {
    return std::is_unsigned_v<T> || (most < std::numeric_limits<T>::max() && most > std::numeric_limits<T>::lowest());
  }

 private:
  std::string from() const {
    if (bounded()) return above ? "more than " + number(least) : below ? "at least " + number(least) : number(least);
    const char* kind = std::is_floating_point_v<T> ? "a number" : "a whole number";
    if (least == std::numeric_limits<T>::lowest()) return kind;
    if (std::is_floating_point_v<T>) return fmt::format("{} {} {}", kind, above ? ">" : ">=", number(least));
    return "at least " + number(least);
  }
  std::string to() const { return (below ? ", below " : ", at most ") + number(most); }

  static std::string number(T x) {
    if (std::is_unsigned_v<T> && x == std::numeric_limits<T>::max()) return fmt::format("2^{} - 1", 8 * sizeof(T));
    return fmt::format("{}", x);
  }
};

/// A visitor of settings: refuses a number that is not in its range.
struct CheckRange {
  std::string_view prefix = "";  ///< of a setting's name, for messages

  template <class T>
  void operator()(const char*, const T&) const {}
  /// A number, with its range.
  /// \throws Error unless `found` is in range
  template <class T>
  void operator()(const char* name, const T& found, const Range<T>& range) const {
    range.check(std::string(prefix) + name, found);
  }
  /// A number that may be absent.
  template <class T>
  void operator()(const char* name, const std::optional<T>& found, const Range<T>& range) const {
    if (found) (*this)(name, *found, range);
  }
  /// A value of its own, beside those in range.
  template <class T, class Word>
  void operator()(const char* name, const T& found, const Range<T>& range, const Word& word) const {
    if (found != word.value) (*this)(name, found, range);
  }
};

}  // namespace K3SPEC_NAMESPACE
