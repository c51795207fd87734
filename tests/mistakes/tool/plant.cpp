/// plant LIST INCLUDE OUT: copies the headers below INCLUDE to OUT, with the mistakes of the folder LIST planted.
/// list LIST: one line for each test of each mistake: name, header, file of the test and its cases, tabs between them.

#include "../plant.hpp"

#include <cstdio>

namespace {

using mistakes::fs::path;

/// Writes only what changes, so that only what depends on it is built again.
void write(const path& file, const std::string& text) {
  if (mistakes::fs::exists(file) && mistakes::contents(file) == text) return;
  mistakes::fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
}

void plant(const path& list, const path& include, const path& out) {
  std::map<path, std::vector<mistakes::Mistake>> of_header;
  for (const auto& m : mistakes::read_list(list)) of_header[path("k3spec") / m.header].push_back(m);
  for (const auto& [header, of] : of_header) {
    if (!mistakes::fs::exists(include / header)) mistakes::fail(of.front(), "no header " + header.string());
  }
  for (const auto& entry : mistakes::fs::recursive_directory_iterator(include)) {
    if (!entry.is_regular_file()) continue;
    const path name = mistakes::fs::relative(entry.path(), include);
    const std::string text = mistakes::contents(entry.path());
    const auto of = of_header.find(name);
    write(out / name, of == of_header.end() ? text : mistakes::planted(text, of->second));
  }
}

void list(const path& folder) {
  for (const auto& m : mistakes::read_list(folder)) {
    for (const auto& test : m.tests) {
      std::printf("%s\t%s\t%s\t%s\n", m.name.c_str(), m.header.c_str(), test.file.c_str(), test.filter.c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 4 && args[0] == "plant") {
    plant(args[1], args[2], args[3]);
  } else if (args.size() == 2 && args[0] == "list") {
    list(args[1]);
  } else {
    throw std::runtime_error("plant LIST INCLUDE OUT, or list LIST");
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "plant_mistakes: %s\n", e.what());
  return 1;
}
