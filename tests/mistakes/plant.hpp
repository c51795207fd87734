#pragma once
/// \file
/// Mistakes of one expression or statement each, planted into a copy of the headers: all are compiled in, and one is
/// switched on when the program starts.
/// defines: mistakes::Mistake, mistakes::parse, mistakes::read_list, mistakes::find, mistakes::planted

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace mistakes {

namespace fs = std::filesystem;

/// A test that ought to find the mistake: a source file under tests/, and which of its cases (doctest's -tc).
struct Test {
  std::string file, filter;
};

/// `from` stands once in `near`, and `near` once in `header`; any white space there is as good as any other.
struct Mistake {
  std::string name, header, near, from, to;
  std::vector<Test> tests;
  std::string at;  ///< list file and line, for messages

  bool is_statement() const { return !from.empty() && (from.back() == ';' || from.back() == '}'); }
};

[[noreturn]] inline void fail(const Mistake& m, const std::string& what) {
  throw std::runtime_error(m.at + ": " + m.name + ": " + what);
}

inline std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace detail {

inline std::string trimmed(const std::string& s) {
  const auto begin = s.find_first_not_of(" \t"), end = s.find_last_not_of(" \t\r");
  return begin == std::string::npos ? std::string() : s.substr(begin, end - begin + 1);
}

inline Test test_of(const Mistake& m, const std::string& value) {
  const auto bar = value.find('|');
  const std::string filter = bar == std::string::npos ? "" : trimmed(value.substr(bar + 1));
  if (filter.empty()) fail(m, "test without a filter: FILE | CASES");
  return {trimmed(value.substr(0, bar)), filter};
}

inline void set(Mistake& m, const std::string& key, const std::string& value) {
  const std::map<std::string, std::string Mistake::*> fields{
      {"in", &Mistake::header}, {"near", &Mistake::near}, {"from", &Mistake::from}, {"to", &Mistake::to}};
  const auto field = fields.find(key);
  if (key == "test") {
    m.tests.push_back(test_of(m, value));
  } else if (field == fields.end()) {
    fail(m, "unknown field '" + key + "'");
  } else if (!(m.*(field->second)).empty()) {
    fail(m, "'" + key + "' twice");
  } else {
    m.*(field->second) = value;
  }
}

/// Whether a comma stands outside of all brackets. Commas between templates' arguments count, too.
inline bool is_several(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) return true;
  }
  return false;
}

inline void check(Mistake& m) {
  if (m.header.empty() || m.from.empty() || m.tests.empty()) fail(m, "needs in, from, to and test");
  if (m.to.empty() && !m.is_statement()) fail(m, "only a statement can be left out");
  // In brackets of its own, as planted, a list would be its last expression: wrong without the mistake, too.
  if (!m.is_statement() && (is_several(m.from) || is_several(m.to))) fail(m, "several expressions instead of one");
  if (m.near.empty()) m.near = m.from;
}

inline bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Where a match of `pattern` that begins at `at` ends, or npos.
inline std::size_t match_end(const std::string& text, std::size_t at, const std::string& pattern) {
  for (std::size_t p = 0; p < pattern.size();) {
    if (is_space(pattern[p])) {
      if (at >= text.size() || !is_space(text[at])) return std::string::npos;
      while (p < pattern.size() && is_space(pattern[p])) ++p;
      while (at < text.size() && is_space(text[at])) ++at;
    } else if (at < text.size() && text[at] == pattern[p]) {
      ++p, ++at;
    } else {
      return std::string::npos;
    }
  }
  return at;
}

inline bool inside_word(const std::string& text, std::size_t at) {
  return at > 0 && at < text.size() && is_word(text[at - 1]) && is_word(text[at]);
}

}  // namespace detail

/// From `begin` up to `end`, in characters.
struct Range {
  std::size_t begin, end;
};

/// Every place in `text`, from `begin` up to `end`, where whole words read `pattern`.
inline std::vector<Range> matches(const std::string& text, Range in, const std::string& pattern) {
  std::vector<Range> found;
  for (std::size_t at = in.begin; at < in.end; ++at) {
    const std::size_t end = detail::match_end(text, at, pattern);
    if (end == std::string::npos || end > in.end) continue;
    if (!detail::inside_word(text, at) && !detail::inside_word(text, end)) found.push_back({at, end});
  }
  return found;
}

/// The mistakes of one list. An empty line ends a mistake, # begins a comment, a line is a field and its value:
///   mistake NAME, in HEADER (below include/k3spec), from TEXT, to TEXT, near TEXT (where `from` stands more than
///   once), test FILE (below tests) | CASES (once or more)
/// Throws std::runtime_error with file, line and mistake.
inline std::vector<Mistake> parse(const std::string& text, const std::string& file) {
  std::vector<Mistake> all;
  std::size_t begin = 0;
  bool open = false;
  for (int number = 1; begin <= text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = detail::trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (!line.empty() && line[0] == '#') continue;
    if (line.empty()) {
      open = false;
      continue;
    }
    const std::size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : detail::trimmed(line.substr(space));
    if (key == "mistake") {
      all.push_back({value, "", "", "", "", {}, file + ":" + std::to_string(number)});
      open = true;
    } else if (!open) {
      throw std::runtime_error(file + ":" + std::to_string(number) + ": '" + key + "' of no mistake");
    } else {
      detail::set(all.back(), key, value);
    }
  }
  for (Mistake& m : all) detail::check(m);
  return all;
}

/// All lists of a folder, in the order of their names.
inline std::vector<Mistake> read_list(const fs::path& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.insert(entry.path());
  }
  std::vector<Mistake> all;
  std::set<std::string> names;
  for (const fs::path& file : files) {
    for (Mistake& m : parse(contents(file), file.filename().string())) {
      if (!names.insert(m.name).second) fail(m, "a name that another has, too");
      all.push_back(std::move(m));
    }
  }
  return all;
}

/// Where the mistake's expression stands in its header. Throws unless it is one place.
inline Range find(const std::string& text, const Mistake& m) {
  const auto near = matches(text, {0, text.size()}, m.near);
  if (near.size() != 1) fail(m, "stands " + std::to_string(near.size()) + " times in " + m.header + ": " + m.near);
  const auto from = matches(text, near[0], m.from);
  if (from.size() != 1) fail(m, "stands " + std::to_string(from.size()) + " times in '" + m.near + "': " + m.from);
  return from[0];
}

/// A header with its mistakes compiled in beside what is right.
inline std::string planted(const std::string& text, const std::vector<Mistake>& mistakes) {
  std::map<std::size_t, std::pair<Range, const Mistake*>> places;
  for (const Mistake& m : mistakes) {
    const Range at = find(text, m);
    const auto next = places.lower_bound(at.begin);
    const bool overlaps = (next != places.end() && next->second.first.begin < at.end) ||
                          (next != places.begin() && std::prev(next)->second.first.end > at.begin);
    if (overlaps) fail(m, "overlaps another");
    places[at.begin] = {at, &m};
  }
  const std::string once = "#pragma once\n";
  if (text.substr(0, once.size()) != once) fail(mistakes.front(), "its header does not begin with #pragma once");
  std::string out = text;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const auto& [at, m] = place->second;
    const std::string on = "::mistakes::switched_on(::mistakes::id(\"" + m->name + "\"))";
    const std::string right = text.substr(at.begin, at.end - at.begin);
    const std::string both = m->is_statement() ? "if (" + on + ") { " + m->to + " } else { " + right + " }"
                                               : "(" + on + " ? (" + m->to + ") : (" + right + "))";
    out.replace(at.begin, at.end - at.begin, both);
  }
  return out.insert(once.size(), "#include \"tests/mistakes/switch.hpp\"\n");
}

}  // namespace mistakes
