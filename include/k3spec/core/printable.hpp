#pragma once
/// \file
/// Text from anywhere as a message or a terminal may show it: no control characters, no bytes that are no text, and not
/// too much of it.
/// defines: printable

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// Bytes of the UTF-8 character at the front; 0 when there is none.
/// \see RFC 3629, section 4
inline std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0U) != 0x80U) return 0;
  }
  const unsigned second = at(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool no_character = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || no_character ? 0 : length;
}

/// Whether a whole UTF-8 character moves the cursor, colours, or turns the direction of text around it.
inline bool is_control(std::string_view character) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return at(0) < 0x20 || at(0) == 0x7f;
  if (character.size() == 2) return at(0) == 0xc2 && at(1) < 0xa0;  // U+0080 to U+009F
  if (character.size() != 3 || at(0) != 0xe2) return false;
  const unsigned low = at(2);
  if (at(1) == 0x80)
    return low == 0x8e || low == 0x8f || (low >= 0xa8 && low <= 0xae);  // U+200E, U+2028 to U+202E, ...
  return at(1) == 0x81 && low >= 0xa6 && low <= 0xa9;                   // U+2066 to U+2069
}

inline void append_escaped(std::string& out, std::string_view text, bool lines) {
  constexpr const char* digits = "0123456789abcdef";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    if ((lines && character == "\n") || (length != 0 && !is_control(character))) {
      out += character;
      continue;
    }
    for (const char c : character) {
      const unsigned byte = static_cast<unsigned char>(c);
      out.append("\\x") += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
}

/// Moves a place in UTF-8 text back to where a character begins.
inline std::size_t character_start(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) --at;
  return at;
}

}  // namespace detail

/// Control characters and bytes that are not UTF-8 as `\x1b`; of longer text the beginning and the end. What has been
/// made printable stays as it is.
/// \param most   bytes of the result, at least 16
/// \param lines  whether ends of lines stay
inline std::string printable(std::string_view text, std::size_t most = 1000, bool lines = false) {
  constexpr std::string_view left_out = "[...]";
  std::string out;
  if (text.size() <= 2 * most) {
    detail::append_escaped(out, text, lines);
  } else {  // what lies between these is cut out below anyway
    detail::append_escaped(out, text.substr(0, most), lines);
    detail::append_escaped(out, text.substr(text.size() - most), lines);
  }
  if (out.size() <= most) return out;
  const std::size_t end = (most - left_out.size()) / 3, begin = most - left_out.size() - end;
  const std::size_t head = detail::character_start(out, begin);
  std::size_t tail = out.size() - end;
  while (tail < out.size() && (static_cast<unsigned char>(out[tail]) & 0xc0U) == 0x80U) ++tail;
  return out.substr(0, head).append(left_out).append(out, tail);
}

}  // namespace K3SPEC_NAMESPACE
