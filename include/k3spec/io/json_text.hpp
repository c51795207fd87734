#pragma once
/// \file
/// Strings and numbers as JSON writes them.
/// defines: io::Utf8
/// \see RFC 8259

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE::io {

/// What becomes of bytes in a string that are not UTF-8: an error, or U+FFFD.
enum class Utf8 { strict, replace };

namespace detail {

inline void append_escaped_character(std::string& out, char c) {
  constexpr const char* digits = "0123456789abcdef";
  constexpr std::string_view short_names = "\"\\\b\f\n\r\t", short_forms = "\"\\bfnrt";
  if (const auto at = short_names.find(c); at != std::string_view::npos) {
    out.append("\\") += short_forms[at];
  } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
    out.append("\\u00") += digits[byte >> 4U];
    out += digits[byte & 15U];
  } else {
    out += c;
  }
}

/// \throws Error on text that is not UTF-8, when `utf8` is strict
inline void append_string(std::string& out, std::string_view text, Utf8 utf8) {
  out += '"';
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = k3spec::detail::utf8_length(rest);
    if (length == 0 && utf8 == Utf8::strict) throw Error("JSON string", text, "UTF-8");
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (length == 1) {
      append_escaped_character(out, rest[0]);
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

/// As Python's repr, so that what Python writes and hashes has the same text: the fewest digits that give the number
/// back; without an exponent from 1e-4 up to 1e16, and with a fraction even if it is 0, so that it stays no integer.
/// What is not finite is null.
inline void append_number(std::string& out, double x) {
  if (!std::isfinite(x)) {
    out += "null";
    return;
  }
  if (std::signbit(x)) out += '-';
  char text[32];
  const auto written = std::to_chars(text, text + sizeof(text), std::fabs(x), std::chars_format::scientific);
  const std::string_view all(text, static_cast<std::size_t>(written.ptr - text));
  const std::size_t e = all.find('e');
  std::string digits(1, all[0]);
  if (e > 2) digits += all.substr(2, e - 2);
  int exponent = 0;
  std::from_chars(all.data() + e + (all[e + 1] == '+' ? 2 : 1), all.data() + all.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out.append(".").append(digits, 1);
    out += all.substr(e);
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
    out.append(digits, 0, whole).append(".").append(digits, whole);
  }
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE::io
