#pragma once
/// \file
/// The rules of the house that can be read off the text of the headers.
/// defines: house::violations, house::examples

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace house {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// Rooms from left to right; a room sees itself and all rooms of the levels left of its own, but no room of its level.
/// The design writes `config <- core`, and lets walls move where the code asks for it: a config's members are index_t,
/// which core/extents.hpp defines, and core needs nothing of config. So core stands before config.
inline const std::vector<Names> levels = {{"core"},
                                          {"config"},
                                          {"expr"},
                                          {"backend"},
                                          {"ops"},
                                          {"layers"},
                                          {"losses", "drafts", "target"},
                                          {"decode", "batches", "optimiser"},
                                          {"objectives"},
                                          {"run"}};

/// Rooms beside that line: what they see, and (by level) from where they are seen.
struct SideRoom {
  Names sees;
  Names seen_by;
};
inline const std::map<std::string, SideRoom> side_rooms = {
    {"io", {{"core", "config"}, {"target", "decode", "batches", "objectives", "run"}}},
    {"comm", {{"core", "backend"}, {"objectives", "run"}}},
    {"testing", {{"core", "config", "expr", "backend", "ops", "layers", "io"}, {}}},
};

/// Libraries that only some headers may include: what their includes begin with, and where they are at home. A home
/// that ends in a slash is a folder.
struct Library {
  std::vector<std::string> includes;
  std::vector<std::string> homes;
};
inline const std::vector<Library> libraries = {
    {{"<Eigen/", "<unsupported/Eigen/"}, {"backend/cpu/packet_eigen.hpp"}},
    {{"<fmt/"}, {"core/format.hpp"}},
    {{"<rapidjson/", "<nlohmann/"}, {"io/json.hpp"}},
    {{"<cuda", "<cublas", "<cooperative_groups", "<nccl", "<nvtx"}, {"backend/cuda/", "comm/nccl.hpp"}},
};

/// Every header is reached from all.hpp, which needs no CUDA; one where CUDA is at home from cuda.hpp instead, and what
/// tests are made with from testing.hpp, which stands beside. Rooms that are used alone have umbrellas too, called as
/// they are.
inline const std::string umbrella = "all.hpp";
inline const std::string cuda_umbrella = "cuda.hpp";
inline const std::string testing_umbrella = "testing.hpp";
inline bool is_umbrella(const std::string& path) { return path.find('/') == std::string::npos; }
/// Those that compile fast: they bring no files.
inline const Names light_umbrellas = {"layers.hpp", "drafts.hpp"};

inline int level_of(const std::string& room) {
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].contains(room)) return static_cast<int>(i);
  }
  return -1;
}

inline bool is_room(const std::string& name) { return level_of(name) >= 0 || side_rooms.contains(name); }

inline bool may_see(const std::string& room, const std::string& other) {
  if (room == other) return true;
  if (const auto side = side_rooms.find(room); side != side_rooms.end()) return side->second.sees.contains(other);
  if (const auto side = side_rooms.find(other); side != side_rooms.end()) return side->second.seen_by.contains(room);
  return is_room(other) && level_of(other) < level_of(room);
}

/// The first folder of a header's path below k3spec; empty for the umbrella.
inline std::string room_of(const std::string& header) {
  const auto slash = header.find('/');
  return slash == std::string::npos ? std::string() : header.substr(0, slash);
}

struct Header {
  std::string text;
  std::vector<std::string> own;     ///< headers of k3spec that it includes, as paths below k3spec
  std::vector<std::string> others;  ///< everything else that it includes, with its brackets
};

inline Header read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  Header header{text.str(), {}, {}};
  static const std::regex include(R"(^[ \t]*#[ \t]*include[ \t]*([<"][^>"]*[>"]))");
  std::istringstream lines(header.text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string name = match[1];
    if (name.starts_with("<k3spec/")) {
      header.own.push_back(name.substr(8, name.size() - 9));
    } else {
      header.others.push_back(name);
    }
  }
  return header;
}

/// The page of a folder may lie beside its headers.
inline bool is_page(const fs::path& file) { return file.filename() == "README.md"; }

/// All headers below `root` (the folder k3spec), by path below it.
inline std::map<std::string, Header> read_all(const fs::path& root) {
  std::map<std::string, Header> headers;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || is_page(entry.path())) continue;
    headers[fs::relative(entry, root).generic_string()] = read(entry);
  }
  return headers;
}

/// The C++ examples in a page's text.
inline std::vector<std::string> examples(const std::string& page) {
  const std::string begin = "\n```cpp\n", end = "\n```\n";
  std::vector<std::string> found;
  for (auto at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    found.push_back(page.substr(at, page.find(end, at) - at));
  }
  return found;
}

/// What a page says of a headers' folder and is not so: `room/header.hpp` that is not there, and a name in backticks
/// behind one that the header does not say. Of `A::b` the b counts. A table or an empty line ends a header's names.
inline std::vector<std::string> wrong_walks(const std::string& page, const fs::path& root) {
  static const std::regex word(R"(\n\n|\n\||\b((?:[a-z_0-9]+/)+[a-z_0-9]+\.hpp)|`([A-Za-z_0-9:]+)`)");
  std::vector<std::string> found;
  std::string header, text;
  for (std::sregex_iterator i(page.begin(), page.end(), word), end; i != end; ++i) {
    const std::string file = (*i)[1], name = (*i)[2];
    if (!file.empty()) {
      header = file, text = read(root / file).text;
      if (text.empty()) found.push_back(file + ": is not there");
    } else if (name.empty()) {
      header.clear();
    } else if (!header.empty()) {
      const std::string last = name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
      if (!std::regex_search(text, std::regex("\\b" + last + "\\b")))
        found.push_back(header + ": does not say " + name);
    }
  }
  return found;
}

inline bool at_home(const std::string& path, const Library& library) {
  return std::any_of(library.homes.begin(), library.homes.end(), [&](const std::string& home) {
    return home.ends_with('/') ? path.starts_with(home) : path == home;
  });
}

inline bool needs_cuda(const std::string& path) { return at_home(path, libraries.back()); }

inline void check_library(const std::string& path, const std::string& include, std::vector<std::string>& found) {
  for (const Library& library : libraries) {
    const bool of_library = std::any_of(library.includes.begin(), library.includes.end(),
                                        [&](const std::string& begin) { return include.starts_with(begin); });
    if (!of_library || at_home(path, library)) continue;
    std::string homes = library.homes[0];
    for (std::size_t i = 1; i < library.homes.size(); ++i) homes += " and " + library.homes[i];
    found.push_back(path + ": includes " + include + ", which only " + homes + " may");
  }
}

inline void check_form(const std::string& path, const Header& header, std::vector<std::string>& found) {
  if (!path.ends_with(".hpp")) found.push_back(path + ": is no .hpp");
  if (!header.text.starts_with("#pragma once\n")) found.push_back(path + ": does not begin with #pragma once");
  if (header.text.find("\n/// \\file\n") == std::string::npos) found.push_back(path + ": has no /// \\file");
  if (header.text.find("\nnamespace k3spec") != std::string::npos) {
    found.push_back(path + ": opens k3spec, wanted K3SPEC_NAMESPACE (core/instruction_set.hpp)");
  }
  if (header.text.find("\n/// defines: ") == std::string::npos) found.push_back(path + ": has no `/// defines:` line");
}

inline void check_arrows(const std::string& path, const Header& header, std::vector<std::string>& found) {
  for (const std::string& other : header.others) {
    if (other.starts_with('"')) found.push_back(path + ": includes " + other + ", wanted <k3spec/...>");
    check_library(path, other, found);
  }
  if (is_umbrella(path)) return;
  const std::string room = room_of(path);
  if (!is_room(room)) {
    found.push_back(path + ": is in no known room");
    return;
  }
  for (const std::string& other : header.own) {
    if (!may_see(room, room_of(other))) found.push_back(path + ": back arrow to " + other);
  }
}

/// Everything that `start` includes, directly or not, and itself.
inline Names reachable(const std::map<std::string, Header>& headers, const std::string& start) {
  Names seen{start};
  std::vector<std::string> todo{start};
  while (!todo.empty()) {
    const auto header = headers.find(todo.back());
    todo.pop_back();
    if (header == headers.end()) continue;
    for (const std::string& other : header->second.own) {
      if (seen.insert(other).second) todo.push_back(other);
    }
  }
  return seen;
}

/// Whether it is of files, which cost every unit that includes them.
inline bool brings_files(const std::map<std::string, Header>& headers, const std::string& start) {
  const Names seen = reachable(headers, start);
  return std::any_of(seen.begin(), seen.end(), [&](const std::string& path) {
    const auto header = headers.find(path);
    if (path.starts_with("io/") || header == headers.end()) return path.starts_with("io/");
    const auto& others = header->second.others;
    return std::find(others.begin(), others.end(), "<filesystem>") != others.end();
  });
}

/// The umbrella that brings a room whole.
inline std::string umbrella_of(const std::string& room) {
  static const Names training = {"batches", "objectives", "optimiser", "run"};
  return (training.contains(room) ? "train" : room) + ".hpp";
}

/// The umbrella of a room brings the room whole; a light one all of it that needs no files.
inline void check_room_umbrellas(const std::map<std::string, Header>& headers, std::vector<std::string>& found) {
  for (const auto& [path, header] : headers) {
    const std::string own = umbrella_of(room_of(path));
    if (is_umbrella(path)) {
      if (light_umbrellas.contains(path) && brings_files(headers, path)) found.push_back(path + ": brings files");
    } else if (own != testing_umbrella && headers.contains(own) && !reachable(headers, own).contains(path)) {
      if (light_umbrellas.contains(own) && brings_files(headers, path)) continue;
      found.push_back(path + ": cannot be reached from " + own);
    }
  }
}

/// Rooms that run on any device: what loops over rows, heads or experts, and with how many threads, is a backend's.
inline const Names device_rooms = {"ops",        "layers",  "losses", "drafts", "target",
                                   "objectives", "batches", "decode", "run"};

inline void check_device_room(const std::string& path, const Header& header, std::vector<std::string>& found) {
  const auto must_not_say = [&](const char* word) {
    if (header.text.find(word) != std::string::npos)
      found.push_back(path + ": says " + word + ", which is a backend's");
  };
  if (!path.starts_with("backend/cpu/")) must_not_say("const Cpu&");
  if (!device_rooms.contains(room_of(path))) return;
  for (const char* word : {"Cpu{", "parallel_for", "for_pieces"}) must_not_say(word);
}

/// The header that refuses compilers and their options: every other one includes it, or one that does.
inline const std::string first_header = "core/compiler.hpp";

/// The header that says what the namespace is called: without it, what is opened is one of another name.
inline const std::string namespace_header = "core/instruction_set.hpp";

inline void check_namespace(const std::string& path, const std::map<std::string, Header>& headers,
                            std::vector<std::string>& found) {
  if (!headers.contains(namespace_header) || path == namespace_header) return;
  if (headers.at(path).text.find("namespace K3SPEC_NAMESPACE") == std::string::npos) return;
  if (reachable(headers, path).contains(namespace_header)) return;
  found.push_back(path + ": opens K3SPEC_NAMESPACE and does not bring " + namespace_header);
}

/// Every header stands under its umbrella, and under no other that must not bring it.
inline void check_reached(const std::map<std::string, Header>& headers, std::vector<std::string>& found) {
  const Names seen = reachable(headers, umbrella), with_cuda = reachable(headers, cuda_umbrella),
              with_testing = reachable(headers, testing_umbrella);
  for (const auto& [path, header] : headers) {
    if (path == umbrella || path == cuda_umbrella) continue;
    const bool cuda = needs_cuda(path), testing = path == testing_umbrella || room_of(path) == "testing";
    if (cuda && seen.contains(path)) found.push_back(path + ": is reached from all.hpp, which needs no CUDA");
    if (testing && seen.contains(path)) found.push_back(path + ": is reached from all.hpp, which brings no tests");
    const Names& wanted = cuda ? with_cuda : testing ? with_testing : seen;
    const std::string& from = cuda ? cuda_umbrella : testing ? testing_umbrella : umbrella;
    if (!wanted.contains(path)) found.push_back(path + ": cannot be reached from " + from);
  }
}

/// One sentence per broken rule in the headers below `root`, the folder k3spec.
inline std::vector<std::string> violations(const fs::path& root) {
  const auto headers = read_all(root);
  std::vector<std::string> found;
  if (headers.contains(cuda_umbrella) && !reachable(headers, cuda_umbrella).contains(umbrella)) {
    found.push_back(cuda_umbrella + ": does not include " + umbrella);
  }
  check_room_umbrellas(headers, found);
  for (const auto& [path, header] : headers) {
    check_form(path, header, found);
    check_arrows(path, header, found);
    check_device_room(path, header, found);
    check_namespace(path, headers, found);
    for (const std::string& other : header.own) {
      if (!headers.contains(other)) found.push_back(path + ": includes " + other + ", which does not exist");
    }
    if (header.own.empty() && path != first_header && headers.contains(first_header)) {
      found.push_back(path + ": does not include " + first_header + " or a header that does");
    }
  }
  check_reached(headers, found);
  return found;
}

}  // namespace house
