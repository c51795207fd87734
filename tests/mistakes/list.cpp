#include "plant.hpp"

#include <doctest/doctest.h>

#include <sstream>

namespace {

using mistakes::Mistake;

const mistakes::fs::path root = K3SPEC_SOURCE_DIR;

const std::string list =
    "# A comment.\n"
    "mistake first\nin a.hpp\nfrom x + 1\nto x\ntest ops/rope.cpp | a row's*\n"
    "\n"
    "mistake second\nin a.hpp\nnear { g(x); }\nfrom g(x);\nto\ntest ops/rope.cpp | *,b\ntest io/json.cpp | c\n";
const std::string header =
    "#pragma once\nint f(int x) { return x +\n  1; }\nvoid h(int x) { g(x); }\nvoid i() { g(x); g(x); }\n";

std::string error_of(const std::string& text, const std::string& in = header) {
  try {
    mistakes::planted(in, mistakes::parse(text, "l.txt"));
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "none";
}

/// doctest's own rule: * stands for any text, ? for any character, letters are alike in both cases.
bool matches_filter(const char* name, const char* filter) {
  if (*filter == '\0') return *name == '\0';
  if (*filter == '*') return matches_filter(name, filter + 1) || (*name != '\0' && matches_filter(name + 1, filter));
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return *name != '\0' && (*filter == '?' || lower(*name) == lower(*filter)) && matches_filter(name + 1, filter + 1);
}

/// The names in TEST_CASE(…) of a file and of what it includes from its folder; of `KIND ": …"`, what follows KIND.
std::vector<std::string> cases_of(const mistakes::fs::path& file) {
  std::vector<std::string> names;
  const std::string text = mistakes::contents(file);
  for (std::size_t at = text.find("TEST_CASE"); at != std::string::npos; at = text.find("TEST_CASE", at + 1)) {
    const std::size_t begin = text.find('"', at), end = text.find('"', begin + 1);
    if (end != std::string::npos) names.push_back(text.substr(begin + 1, end - begin - 1));
  }
  const std::string include = "#include \"tests/";
  for (std::size_t at = text.find(include); at != std::string::npos; at = text.find(include, at + 1)) {
    const std::size_t begin = at + include.size() - 6, end = text.find('"', begin);
    const auto included = root / text.substr(begin, end - begin);
    if (included.parent_path() != file.parent_path()) continue;
    for (std::string& name : cases_of(included)) names.push_back(std::move(name));
  }
  return names;
}

/// Whether a case of the file is one that the filter names; types of templates do not count.
bool names_a_case(const mistakes::Test& test) {
  const auto names = cases_of(root / "tests" / test.file);
  std::istringstream filters(test.filter);
  for (std::string filter; std::getline(filters, filter, ',');) {
    const std::string of_template = filter.substr(0, filter.find('<'));
    const bool found = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches_filter(name.c_str(), of_template.c_str());
    });
    if (!found) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every listed mistake still stands once in its header") {
  const auto all = mistakes::read_list(root / "tests/mistakes/list");
  std::map<std::string, std::vector<Mistake>> of_header;
  for (const Mistake& m : all) of_header[m.header].push_back(m);
  for (const auto& [header, of] : of_header) {
    const std::string& name = header;  // clang 14 lets no lambda have a binding
    CAPTURE(name);
    CHECK_NOTHROW(mistakes::planted(mistakes::contents(root / "include/k3spec" / name), of));
  }
  CHECK(all.size() >= 60);
}

TEST_CASE("every test that a listed mistake names is there") {
  for (const Mistake& m : mistakes::read_list(root / "tests/mistakes/list")) {
    for (const auto& test : m.tests) {
      CAPTURE(m.name);
      CAPTURE(test.file);
      CAPTURE(test.filter);
      CHECK(names_a_case(test));
    }
  }
}

TEST_CASE("what is right and its mistake stand side by side") {
  const auto all = mistakes::parse(list, "l.txt");
  REQUIRE(all.size() == 2);
  CHECK(all[0].tests[0].filter == "a row's*");
  CHECK(all[1].tests.size() == 2);
  CHECK(mistakes::planted(header, all) ==
        "#pragma once\n#include \"tests/mistakes/switch.hpp\"\n"
        "int f(int x) { return (::mistakes::switched_on(::mistakes::id(\"first\")) ? (x) : (x +\n  1)); }\n"
        "void h(int x) { if (::mistakes::switched_on(::mistakes::id(\"second\"))) {  } else { g(x); } }\n"
        "void i() { g(x); g(x); }\n");
}

TEST_CASE("a place that is gone or stands twice is an error, and so is a list that says too little") {
  const std::string test = "test ops/rope.cpp | *\n";
  CHECK(error_of(list) == "none");
  CHECK(error_of("mistake m\nin a.hpp\nfrom y\nto x\n" + test) == "l.txt:1: m: stands 0 times in a.hpp: y");
  CHECK(error_of("mistake m\nin a.hpp\nfrom g(x);\nto\n" + test) == "l.txt:1: m: stands 3 times in a.hpp: g(x);");
  CHECK(error_of("\nmistake m\nin a.hpp\nnear g(x); g(x);\nfrom g(x)\nto x\n" + test) ==
        "l.txt:2: m: stands 2 times in 'g(x); g(x);': g(x)");
  CHECK(error_of("mistake m\nin a.hpp\nfrom ragma once\nto x\n" + test) ==
        "l.txt:1: m: stands 0 times in a.hpp: ragma once");
  CHECK(error_of(list + "\nmistake m\nin a.hpp\nnear return x + 1\nfrom return x\nto x\n" + test) ==
        "l.txt:16: m: overlaps another");
  CHECK(error_of("mistake m\nin a.hpp\nfrom x + 1\nto x\n") == "l.txt:1: m: needs in, from, to and test");
  CHECK(error_of("mistake m\nin a.hpp\nfrom x + 1\n" + test) == "l.txt:1: m: only a statement can be left out");
  CHECK(error_of("mistake m\nin a.hpp\nfrom x, 1\nto x\n" + test) == "l.txt:1: m: several expressions instead of one");
  CHECK(error_of("mistake m\nin a.hpp\nfrom f(x, 1)\nto x\n" + test) == "l.txt:1: m: stands 0 times in a.hpp: f(x, 1)");
  CHECK(error_of("mistake m\nin a.hpp\nfrom x + 1\nfrom x\n") == "l.txt:1: m: 'from' twice");
  CHECK(error_of("mistake m\nat a.hpp\n") == "l.txt:1: m: unknown field 'at'");
  CHECK(error_of("mistake m\ntest ops/rope.cpp\n") == "l.txt:1: m: test without a filter: FILE | CASES");
  CHECK(error_of("from x\n") == "l.txt:1: 'from' of no mistake");
}
