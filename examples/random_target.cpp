// Writes a checkpoint of the target that it is compiled for, with random weights: to try a config before there is a
// model of it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include <k3spec/io/outputs.hpp>
#include <k3spec/target/save.hpp>

#include <k3spec_programs.hpp>

#include "common/memory.hpp"
#include "common/places.hpp"
#include "common/program.hpp"
#include "common/run_folder.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

using Target = K3Target<examples::TargetConfig>;

/// \throws Error where a file of somebody's would be lost
void check_folder(const fs::path& out) {
  examples::check_output_folder("--out", out);
  examples::refuse_run_folder({"--out", out});
  for (const char* name : {io::ModelTensors::single_name, "model.safetensors.index.json", "config.json"}) {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(out / name, ignored))) continue;
    throw Error("--out", (out / name).string() + ", which is there already", "a folder without a model");
  }
}

void write(const fs::path& out, std::uint64_t seed, double deviation) {
  check_folder(out);
  examples::check_memory("the target",
                         sizeof(bfloat16) * static_cast<std::uint64_t>(parameter_slots<Target, bfloat16>));
  const auto parameters = std::make_unique<Parameters<Target, bfloat16>>();
  parameters->initialize(seed, deviation);
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed) throw Error(out.string(), failed.message(), "a directory that can be created");
  save_target(out, *parameters, {{"written_by", "random_target"}});
  fmt::print("{}: {} random parameters in {}\n", examples::target_name, parameter_count<Target>,
             printable(out.string()));
}

}  // namespace

int main(int argc, char** argv) {
  const char* about = "Writes a checkpoint of the target that this is compiled for, with random weights.";
  return examples::run_program("random_target", about, [&](examples::Arguments& arguments) {
    fs::path out;
    std::uint64_t seed = 0;
    double deviation = Parameters<Target, bfloat16>::default_deviation;
    arguments.path("--out,--output", out, "Folder to write")->required();
    arguments.number("--seed", seed, Range<std::uint64_t>{}, "Of what is drawn");
    arguments.number("--deviation", deviation, Range<double>{.least = 0, .above = true}, "Standard deviation of it");
    arguments.parse(argc, argv);
    write(out, seed, deviation);
  });
}
