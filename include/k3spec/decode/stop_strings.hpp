#pragma once
/// \file
/// Strings that end a text, looked for in the bytes of its tokens, over their borders.
/// defines: TokenBytes, byte_of_token, StopStrings

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// The bytes that a token adds to the text; they must stay where they are while it is decoded. Empty for tokens that
/// are no text. Bytes of one character may stand in several tokens.
using TokenBytes = std::function<std::string_view(index_t token)>;

/// TokenBytes of a vocabulary whose tokens 0 to 255 are bytes, and the others no text.
inline std::string_view byte_of_token(index_t token) {
  static const std::array<char, 256> bytes = [] {
    std::array<char, 256> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  return token >= 0 && token < 256 ? std::string_view(&bytes[static_cast<std::size_t>(token)], 1) : std::string_view();
}

/// Finds the first end of any of several strings in bytes that come piece by piece (Knuth, Morris and Pratt): each byte
/// is looked at once, and nothing is kept of the text.
class StopStrings {
 public:
  /// Looks for any of these strings.
  /// \throws Error on an empty string
  explicit StopStrings(const std::vector<std::string>& strings) {
    for (const std::string& s : strings) {
      require(!s.empty(), "stop string", "an empty one", "at least one byte: it would end a text before it begins");
      strings_.push_back({s, borders_of(s)});
    }
  }

  bool empty() const { return strings_.empty(); }

  /// Forgets what was fed.
  void reset() {
    for (String& s : strings_) s.matched = 0;
  }

  /// Reads on in a text.
  /// \returns how many of the bytes there are up to the first end of a string; none when no string ends in them
  std::optional<std::size_t> feed(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bool ends = false;
      for (String& s : strings_) ends |= advance(s, bytes[i]);
      if (ends) return i + 1;
    }
    return std::nullopt;
  }

 private:
  struct String {
    std::string text;
    std::vector<std::size_t> borders;  ///< [n]: of the first n + 1 bytes, how many of their last are also their first
    std::size_t matched = 0;           ///< bytes of the text that the last ones fed are
  };

  static std::vector<std::size_t> borders_of(const std::string& s) {
    std::vector<std::size_t> borders(s.size());
    for (std::size_t i = 1, n = 0; i < s.size(); ++i) {
      while (n > 0 && s[i] != s[n]) n = borders[n - 1];
      if (s[i] == s[n]) ++n;
      borders[i] = n;
    }
    return borders;
  }

  /// \returns whether the string ends with this byte
  static bool advance(String& s, char byte) {
    while (s.matched > 0 && (s.matched == s.text.size() || byte != s.text[s.matched])) {
      s.matched = s.borders[s.matched - 1];
    }
    if (byte == s.text[s.matched]) ++s.matched;
    return s.matched == s.text.size();
  }

  std::vector<String> strings_;
};

}  // namespace K3SPEC_NAMESPACE
