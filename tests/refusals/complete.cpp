// Every public function with more than one extent among its arguments is called with wrong ones somewhere in this
// folder, or stands below with the reason why not.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Names = std::set<std::string>;
namespace fs = std::filesystem;
const fs::path root = K3SPEC_SOURCE_DIR;

const std::map<std::string, std::string> exempt = {
    {"batches/stored_features.hpp read", "run/feature_cache.cpp, which has a cache"},
    {"batches/stored_features.hpp read_top", "run/feature_cache.cpp, which has a cache"},
    {"decode/drafting.hpp append", "the session's own"},
    {"decode/drafting_lists.hpp append", "what require_append has passed"},
    {"decode/eagle3_lists.hpp append", "what require_append has passed"},
    {"decode/eagle3_lists.hpp step", "the session's own lists"},
    {"decode/no_draft.hpp append", "does nothing"},
    {"decode/no_draft.hpp draft", "does nothing"},
    {"drafts/block_layer.hpp attention_problem", "says what attention is of, which compares the shapes"},
    {"decode/target_rows.hpp forward", "the engine's to refuse: see require_forward"},
    {"decode/speculative.hpp SpeculativeDecoder", "its layers are the session's to count: see taps"},
};

std::string contents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A header without comments, strings and lines of the preprocessor.
std::string code_of(const std::string& text) {
  static const std::regex noise(R"(//[^\n]*|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])'|(^|\n)[ ]*#[^\n]*)");
  return std::regex_replace(text, noise, "");
}

/// The parts of a list at its commas, those within brackets left alone.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : list) {
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// A function's name, and how many of its parameters have extents.
struct Function {
  std::string name;
  int extents = 0;
};

/// \param head  what stands before a function's body
Function function_of(std::string head) {
  static const std::regex view_name(R"(AnyView (\w+))");
  static const std::regex has_extents(
      R"(\b(Vector|Matrix|Rows|View|span|Saved|Keys|Activations|Gradient|Step|AttentionKeys|AttentionSteps|)"
      R"(AttentionResult|Distribution)<|)"
      R"(\b(Batch|TextWindows|Documents|NewTokens|TargetOutput|Proposal|ExpertRows|Windows|Teacher|Target|Scratch)\b)");
  // Structs of several views.
  static const std::regex is_problem(
      R"(\b((Ttt|Block|Rope)(Problem|Gradients)|KdaRecurrence|ShortConv|LatentAttention)<)");
  Names views;
  for (std::sregex_iterator i(head.begin(), head.end(), view_name), end; i != end; ++i) views.insert((*i)[1]);
  static const std::regex prefix(R"(^\s*template\s*<)");
  for (std::smatch m; std::regex_search(head, m, prefix);) {
    std::size_t at = static_cast<std::size_t>(m.length());
    for (int depth = 1; depth > 0 && at < head.size(); ++at) depth += head[at] == '<' ? 1 : head[at] == '>' ? -1 : 0;
    head = head.substr(at);
  }
  static const std::regex requirement(R"(^\s*requires\s*\([^{]*?\)\s*(?=void|bool|static|constexpr|inline|[A-Z]))");
  head = std::regex_replace(head, requirement, "");
  static const std::regex named(R"((operator\(\)|operator\[\]|~?\w+)\s*\()");
  std::smatch m;
  if (!std::regex_search(head, m, named) || m[1] == "requires") return {};
  std::size_t at = static_cast<std::size_t>(m.position() + m.length());
  const std::size_t begin = at;
  for (int depth = 1; depth > 0 && at < head.size(); ++at) depth += head[at] == '(' ? 1 : head[at] == ')' ? -1 : 0;
  Function f{m[1]};
  for (const std::string& parameter : split(head.substr(begin, at - begin - 1))) {
    bool counts = std::regex_search(parameter, has_extents);
    for (const std::string& view : views)
      counts = counts || std::regex_search(parameter, std::regex("\\b" + view + "&"));
    f.extents += std::regex_search(parameter, is_problem) ? 2 : counts ? 1 : 0;
  }
  return f;
}

/// The public functions of a header that have more than one extent.
class Header {
 public:
  explicit Header(std::string code) : code_(std::move(code)) { read(code_.size(), true); }
  Names functions;

 private:
  void read(std::size_t end, bool is_public) {
    std::string head;
    while (at_ < end) {
      const char c = code_[at_++];
      if (c == ';') {
        head.clear();
      } else if (c == '{') {
        enter(head, is_public);
        head.clear();
      } else if (c == '}') {
        return;
      } else {
        head += c;
        is_public = access(head, is_public);
      }
    }
  }
  static bool access(std::string& head, bool is_public) {
    for (const auto& [word, says] :
         {std::pair("public:", true), std::pair("private:", false), std::pair("protected:", false)}) {
      if (head.size() >= std::string(word).size() && head.ends_with(word)) return head.clear(), says;
    }
    return is_public;
  }
  void enter(const std::string& head, bool is_public) {
    static const std::regex scope(R"(\b(namespace|struct|class|enum|union)\b[^()]*$)"),
        keeps(R"(\bnamespace\b|\bstruct\b)");
    if (std::regex_search(head, scope) && !std::regex_search(head, std::regex(R"(\benum\b)"))) {
      const bool is_detail = std::regex_search(head, std::regex(R"(\bnamespace\s+detail\b)"));
      return read(code_.size(), is_public && !is_detail && std::regex_search(head, keeps));
    }
    if (is_public && head.find('(') != std::string::npos) {
      const Function f = function_of(head);
      if (f.extents > 1) functions.insert(f.name);
    }
    skip();
  }
  void skip() {
    for (int depth = 1; depth > 0 && at_ < code_.size(); ++at_) {
      depth += code_[at_] == '{' ? 1 : code_[at_] == '}' ? -1 : 0;
    }
  }

  std::string code_;
  std::size_t at_ = 0;
};

Names public_functions() {
  Names all;
  for (const char* room :
       {"ops", "layers", "losses", "drafts", "target", "decode", "batches", "objectives", "optimiser", "run", "io"}) {
    for (const auto& entry : fs::directory_iterator(root / "include/k3spec" / room)) {
      for (const std::string& name : Header(code_of(contents(entry.path()))).functions) {
        all.insert(std::string(room) + "/" + entry.path().filename().string() + " " + name);
      }
    }
  }
  return all;
}

/// The calls that tables name. What stands behind `header +` is of every header that a session has.
Names covered() {
  static const std::regex whole(R"re("(\w+/\w+\.hpp) ([^"]+)")re"), part(R"re(header \+ " (\w+)")re"),
      session(R"re(session\("([^"]+)")re");
  Names all;
  for (const auto& entry : fs::directory_iterator(root / "tests/refusals")) {
    if (entry.path().filename() == "complete.cpp") continue;
    const std::string text = contents(entry.path());
    const auto each = [&](const std::regex& pattern, auto&& f) {
      for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) f(*i);
    };
    each(whole, [&](const std::smatch& m) { all.insert(m[1].str() + " " + m[2].str()); });
    each(session, [&](const std::smatch& s) {
      each(part, [&](const std::smatch& m) { all.insert(s[1].str() + " " + m[1].str()); });
    });
  }
  return all;
}

}  // namespace

TEST_CASE("every public function of more than one extent is called with a wrong one") {
  const Names wanted = public_functions(), there = covered();
  CHECK(wanted.size() > 60);
  for (const std::string& name : wanted) {
    if (there.count(name) == 0 && exempt.count(name) == 0) FAIL_CHECK(name << " is in no table and not exempt");
  }
  for (const auto& [name, reason] : exempt) {
    if (wanted.count(name) == 0 || there.count(name) > 0) FAIL_CHECK(name << " is exempt for nothing: " << reason);
  }
}

TEST_CASE("functions are found, private ones and those of one extent left out") {
  const auto found = [](const std::string& code) { return Header(code_of(code)).functions; };
  CHECK(found("void f(Vector<int> a, Matrix<const T> b) { g(); }") == Names{"f"});
  CHECK(found("void f(Vector<int> a, index_t b) {}").empty());
  CHECK(found("template <AnyView X, class Y>\nvoid f(const X& x, const X& y) {}\nvoid g(std::span<int> a, View<T, 1> "
              "b);") == Names{"f"});
  CHECK(
      found("struct A { void f(Rows<T, 3> a, Rows<T, 3> b) {}\n private:\n void g(Rows<T, 3> a, Rows<T, 3> b) {} };") ==
      Names{"f"});
  CHECK(found("void f(const D& device, const ShortConv<T>& problem) {}") == Names{"f"});
  CHECK(found("class A { void f(Rows<T, 3> a, Rows<T, 3> b) {}\n public:\n void operator()(std::span<T> a, Batch& b) "
              "{} };") == Names{"operator()"});
  CHECK(found("namespace detail { void f(Rows<T, 3> a, Rows<T, 3> b) {} }\n// void g(Rows<T, 3> a, Rows<T, 3> b) {}")
            .empty());
  CHECK(found("A(Rows<T, 3> a, Rows<T, 3> b) : c_{1}, d_(2) {}") == Names{"A"});
}
