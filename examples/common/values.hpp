#pragma once
/// \file
/// The values of flags: one reading of numbers for all programs, and how what is no value is refused.
/// defines: UsageError, shown_value, parse_number, parse_numbers

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/core/range.hpp>

namespace k3spec::examples {

/// A command line that cannot be meant, whatever the files and the machine: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
  explicit UsageError(const Error& e) : Error(e) {}
};

/// What was given, in quotes, so that blanks and nothing at all show, too.
inline std::string shown_value(std::string_view text) { return '\'' + printable(text, 80) + '\''; }

/// Whether a number's digits are all 0, whatever its exponent is: "0e400".
inline bool is_zero(std::string_view number) {
  return number.substr(0, number.find_first_of("eE")).find_first_not_of("-.0") == std::string_view::npos;
}

/// A decimal number, written without blanks, a plus or digits of another base, that is in the range: nothing is
/// rounded, wrapped or cut. "inf" is a number where the range has it. \param flag  whose value it is \throws UsageError
template <class T>
T parse_number(const std::string& flag, std::string_view text, const Range<T>& range) {
  T value{};
  const char* end = text.data() + text.size();
  auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (std::is_floating_point_v<T> && failed == std::errc::result_out_of_range && is_zero(text)) {
    value = 0;
    failed = std::errc();
  }
  const bool number = stop == end && failed != std::errc::invalid_argument;
  if (number && failed == std::errc() && range.contains(value)) return value;
  std::string wanted = range.words();
  const bool whole = std::is_integral_v<T>, unheard = failed == std::errc::result_out_of_range;
  if (whole && !number && wanted.rfind("a whole", 0) != 0) wanted = "a whole number, " + wanted;
  if (!whole && !number && wanted.rfind("a number", 0) != 0) wanted = "a number, " + wanted;
  if (whole && number && unheard && !range.bounded()) wanted += ", at most 2^63 - 1";
  if (!whole && number && unheard) wanted += ", neither larger nor closer to 0 than double precision goes";
  throw UsageError(flag, number ? printable(text, 80) : shown_value(text), wanted);
}

/// The same of several with commas between them.
template <class T>
std::vector<T> parse_numbers(const std::string& flag, std::string_view text, const Range<T>& range) {
  std::vector<T> values;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = text.find(',', begin);
    values.push_back(parse_number(flag, text.substr(begin, comma - begin), range));
    if (comma == std::string_view::npos) return values;
    begin = comma + 1;
  }
}

}  // namespace k3spec::examples
