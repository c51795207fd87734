#pragma once
/// \file
/// Where a run writes, held against what it reads and what is there already, before anything is loaded.
/// defines: check_outputs, check_log, take_folder

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/json_log.hpp>
#include <k3spec/io/outputs.hpp>

#include "../common/run_folder.hpp"
#include "log_records.hpp"
#include "options.hpp"

namespace k3spec::examples {

/// \throws Error when checkpoints or the log would come where something is that is read, or the log where checkpoints
/// are
inline void check_outputs(const Options& o) {
  std::vector<io::NamedPath> inputs;
  if (!o.target.empty()) inputs.push_back({"--target", o.target});
  if (!o.features.empty()) inputs.push_back({"--features", o.features});
  inputs.push_back({"--train", o.train});
  for (const HeldoutFile& file : o.heldout_files) inputs.push_back({"--heldout", file.path});
  if (o.init_from) inputs.push_back({"--init-from", *o.init_from});
  if (o.vocabulary_from) inputs.push_back({"--vocabulary-from", *o.vocabulary_from});
  io::refuse_inputs({"--out", o.out}, inputs);
  io::refuse_inputs({"--log", o.log}, inputs);
  refuse_runs_own({"--out", o.out});
  refuse_runs_own({"--log", o.log});
  const auto within = io::whole_path(o.log).lexically_relative(io::whole_path(o.out));
  const std::string first = within.empty() ? "" : within.begin()->string();
  const bool link = first == CheckpointDirectory::latest_name || first == CheckpointDirectory::best_name;
  if (link || checkpoint_step(first)) {
    throw Error("--log", o.log.string() + ", which is the checkpoints' own", "another place");
  }
}

/// \returns a device or a FIFO, open: to be kept until the run has its log, for whoever reads a FIFO would see its end
/// \throws Error when the log is a file that no run wrote or that another process writes, or a FIFO that nobody reads
inline std::optional<io::FileSink> check_log(const Options& o) {
  try {
    const io::OutputFile to = io::destination(o.log);
    if (to.written_through) return io::FileSink::append_to(to);
    JsonLog::check(o.log, !o.resume, is_log_record);
    return std::nullopt;
  } catch (const Error& e) {
    throw e.within("--log");
  }
}

/// Takes OUT for this run.
/// \param latest  what was found there before
/// \throws Error when another run is at work in it or was until now, and when a new run would come where one is
inline void take_folder(CheckpointDirectory& checkpoints, const std::optional<std::filesystem::path>& latest,
                        bool resume) {
  checkpoints.prepare();
  if (checkpoints.latest() != latest) {
    throw Error("--out", "a run in it that ended just now", "this one to be started again");
  }
  if (!checkpoints.guarded()) {
    say(fmt::format("warning: {}: its file system has no locks: a second run in it would not be noticed",
                    printable(checkpoints.root().string())));
  }
  if (resume) {
    std::string names;
    for (const std::string& name : checkpoints.unknown()) names.append(names.empty() ? "" : ", ").append(name);
    if (names.empty()) return;
    say(fmt::format("note: {}: nothing says whether this run wrote {}: they stay until somebody removes them",
                    printable(checkpoints.root().string()), printable(names)));
  } else if (latest) {
    throw Error("--out", latest->string(), "a directory without a run, or --resume");
  } else if (const auto unnamed = checkpoints.newest()) {
    throw Error("--out",
                fmt::format("{}, which no link '{}' names", unnamed->string(), CheckpointDirectory::latest_name),
                "a directory without a run; with such a link --resume goes on");
  }
}

}  // namespace k3spec::examples
