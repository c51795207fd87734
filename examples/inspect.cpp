// Prints what a checkpoint holds and, given a config's name, every field in which its config.json differs; or writes a
// config's type for it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/emit_config.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/outputs.hpp>

#include "common/compiled_in.hpp"
#include "common/program.hpp"
#include "common/run_folder.hpp"

using namespace k3spec;

namespace {

struct Total {
  std::int64_t tensors = 0, elements = 0;
  std::uint64_t bytes = 0;
};

/// A name or value of a file's, which may hold anything.
std::string shown(const std::string& text) { return printable(text, 400); }

void print_tensors(const io::ModelTensors& checkpoint, bool list) {
  Total all;
  std::map<std::string, Total> by_type;
  const auto names = checkpoint.names();
  std::size_t width = 0;
  if (list) {
    for (const auto& name : names) width = std::max(width, shown(name).size());
  }
  for (const auto& name : names) {
    const io::TensorInfo& info = checkpoint.info(name);
    const std::uint64_t bytes = info.end - info.begin;
    if (list) {
      fmt::print("{:<{}}  {:<5} {:<16} {:>13}\n", shown(name), width, k3spec::name(info.dtype),
                 io::shape_string(info.shape), bytes);
    }
    for (Total* t : {&all, &by_type[std::string(k3spec::name(info.dtype))]}) {
      ++t->tensors;
      t->elements += static_cast<std::int64_t>(bytes / size_of(info.dtype));
      t->bytes += bytes;
    }
  }
  for (const auto& [type, t] : by_type) {
    fmt::print("{:<6} {:>8} tensors {:>16} elements {:>16} bytes\n", type, t.tensors, t.elements, t.bytes);
  }
  fmt::print("total  {:>8} tensors {:>16} elements {:>16} bytes in {} file{}\n", all.tensors, all.elements, all.bytes,
             checkpoint.files().size(), checkpoint.files().size() == 1 ? "" : "s");
}

void print_note(const std::string& note) { fmt::print(stderr, "note: {}\n", note); }

void print_metadata(const io::ModelTensors& checkpoint) {
  for (const auto& file : checkpoint.files()) {
    for (const auto& [key, value] : file.metadata())
      fmt::print("{}: {} = {}\n", shown(file.path()), shown(key), shown(value));
  }
}

/// config.json beside the tensors.
std::filesystem::path config_file(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  return (std::filesystem::is_directory(checkpoint, ignored) ? checkpoint : checkpoint.parent_path()) / "config.json";
}

using Check = std::vector<std::string> (*)(const io::json&, std::string_view);

/// The bundled ones, and those that the program is compiled for.
std::map<std::string, Check> configs_by_name{
    {"deepseek-v3", io::check_config<configs::DeepSeekV3>},
    {"deepseek-v3-eagle3.1", io::check_config<configs::Eagle31<configs::DeepSeekV3>>},
    {"deepseek-v3-tiny", io::check_config<configs::DeepSeekV3Tiny>},
    {"deepseek-v3-tiny-eagle3.1", io::check_config<configs::Eagle31<configs::DeepSeekV3Tiny>>},
    {"kimi-k3", io::check_config<configs::KimiK3>},
    {"kimi-k3-dflash", io::check_config<configs::KimiK3DFlash>},
    {"kimi-k3-dspark", io::check_config<configs::KimiK3DSpark>},
    {"kimi-k3-eagle3.1", io::check_config<configs::Eagle31<configs::KimiK3>>},
    {"kimi-k3-small", io::check_config<configs::KimiK3Small>},
    {"kimi-k3-tiny", io::check_config<configs::KimiK3Tiny>},
    {"kimi-k3-tiny-dflash", io::check_config<configs::KimiK3TinyDFlash>},
    {"kimi-k3-tiny-dspark", io::check_config<configs::KimiK3TinyDSpark>},
    {"kimi-k3-tiny-eagle3.1", io::check_config<configs::Eagle31<configs::KimiK3Tiny>>}};

/// A header to write, and the type in it.
struct Emitted {
  std::filesystem::path header;
  std::string name;
};

/// \throws UsageError on flags that do not go together and on a name that no type can have
io::TypeName check_name(const Emitted& o) {
  using examples::UsageError;
  if (o.header.empty()) throw UsageError("--name", "it without --emit-config", "both or neither");
  if (o.name.empty()) throw UsageError("--emit-config", "it without --name", "the type's name, too");
  try {
    return io::type_name(o.name, "--name");
  } catch (const Error& e) {
    throw UsageError(e);
  }
}

/// Writes the header of a checkpoint's config. \throws Error when that would come where anything else is
void emit(const Emitted& o, const std::filesystem::path& folder) {
  const io::TypeName name = check_name(o);
  examples::refuse_runs_own({"--emit-config", o.header});
  io::refuse_other_files({"--emit-config", o.header}, {{"checkpoint", folder}}, "a config of inspect's",
                         io::is_emitted_config);
  const io::EmittedConfig config = io::emit_config(folder, name);
  io::write_text(o.header, config.text);
  for (const auto& note : config.notes) print_note(note);
  fmt::print("{}: {}, a config for {}\n", shown(o.header.string()), o.name, shown(folder.string()));
}

void add_compiled_in() {
  configs_by_name.emplace(examples::target_name, io::check_config<examples::TargetConfig>);
  for (std::size_t i = 0; i < examples::draft_types.size(); ++i) {
    const Check check = examples::with_draft(i, []<class Config>() -> Check { return io::check_config<Config>; });
    configs_by_name.emplace(examples::draft_types[i].name, check);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* about =
      "Prints the tensors of a checkpoint, checks its config.json against a config, or writes a config's type for it.";
  return examples::run_program("inspect", about, [&](examples::Arguments& arguments) {
    std::filesystem::path path;
    std::vector<std::string> names;
    std::string prefix, config;
    Emitted emitted;
    bool quiet = false;
    add_compiled_in();
    for (const auto& [name, check] : configs_by_name) names.push_back(name);
    arguments.path("checkpoint", path, "A directory, a safetensors file or its index")->required();
    arguments.text("--prefix", prefix, "Taken off the tensor names that start with it, e.g. language_model.");
    arguments.one_of("--config", config, names, "Compare config.json with this config");
    arguments.path("--emit-config", emitted.header,
                   "Write a C++ header with the type of the folder's config.json here");
    arguments.text("--name", emitted.name, "That type's name: Mine or ns::Mine");
    arguments.toggle("--quiet", quiet, "Print the totals only");
    arguments.parse(argc, argv);
    if (!emitted.header.empty() || !emitted.name.empty()) return emit(emitted, path);

    const auto checkpoint = io::ModelTensors::open(path, prefix);
    const auto file = config_file(path);
    std::vector<std::string> of_config;
    if (!config.empty()) of_config = configs_by_name.at(config)(io::read_json(file), file.string());
    if (!quiet) print_metadata(checkpoint);
    print_tensors(checkpoint, !quiet);
    for (const auto& note : checkpoint.notes()) print_note(note);
    if (config.empty()) return;
    for (const auto& note : of_config) print_note(note);
    fmt::print("{}: agrees with {}\n", shown(file.string()), config);
  });
}
