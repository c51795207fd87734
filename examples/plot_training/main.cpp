// Reports what train_draft logged, and what speculate measured, as one HTML page that stands alone.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/outputs.hpp>

#include "../common/places.hpp"
#include "../common/program.hpp"
#include "../common/run_folder.hpp"
#include "decoding.hpp"
#include "log.hpp"
#include "report.hpp"

using namespace k3spec;

namespace {

struct Options {
  std::vector<std::string> logs;
  std::optional<std::filesystem::path> decoding;
  std::filesystem::path out;
};

/// "dflash=build/run/train.jsonl"
void check_series(const std::string& argument) {
  const auto at = argument.find('=');
  if (at != std::string::npos && at > 0 && at + 1 < argument.size()) return;
  throw examples::UsageError("series", examples::shown_value(argument), "NAME=LOG");
}

examples::TrainingLog read_series(const std::string& argument) {
  const auto at = argument.find('=');
  return examples::read_log(argument.substr(0, at), argument.substr(at + 1));
}

/// \throws Error when the report would come where an input or anything else is but such a report
void check_report(const Options& o) {
  std::vector<io::NamedPath> inputs;
  for (const std::string& argument : o.logs)
    inputs.push_back({"series", argument.substr(argument.find('=') + 1), true});
  if (o.decoding) inputs.push_back({"--decoding", *o.decoding, true});
  examples::refuse_runs_own({"--out", o.out});
  io::refuse_other_files({"--out", o.out}, inputs, "a report of plot_training's",
                         [](const std::filesystem::path& path) {
                           const std::string_view wanted = examples::page_beginning;
                           std::string text(wanted.size(), '\0');
                           text.resize(io::InputFile(path).read_some(0, text.data(), text.size()));
                           return text == wanted;
                         });
}

}  // namespace

int main(int argc, char** argv) {
  const char* about = "Reports training runs as an HTML page that stands alone: curves, and what they come to.";
  return examples::run_program("plot_training", about, [&](examples::Arguments& arguments) {
    Options o;
    arguments.texts("series", o.logs, "NAME=LOG for each run, LOG being train_draft's train.jsonl")->required();
    arguments.path("--decoding", o.decoding, "What speculate --json wrote of these drafts");
    arguments.path("--out,--output", o.out, "The page")->required();
    arguments.parse(argc, argv);

    for (const auto& log : o.logs) check_series(log);
    examples::check_output_file("--out", o.out);
    check_report(o);
    std::vector<examples::TrainingLog> logs;
    for (const auto& log : o.logs) logs.push_back(read_series(log));
    std::vector<examples::Decoding> decoding;
    if (o.decoding) decoding = examples::read_decoding(o.decoding->string());
    io::write_text(o.out, examples::Report(logs, decoding).html());
    fmt::print("report: {}\n", printable(o.out.string()));
  });
}
