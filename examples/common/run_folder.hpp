#pragma once
/// \file
/// What a program writes is kept out of what belongs to a training run.
/// defines: refuse_runs_own, refuse_run_folder

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <k3spec/core/error.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/outputs.hpp>

namespace k3spec::examples {

/// \throws Error on a place that a run may empty
inline void refuse_runs_own(const io::NamedPath& output) {
  const std::filesystem::path whole = io::whole_path(output.path);
  const bool own =
      std::any_of(whole.begin(), whole.end(), [](const auto& part) { return part == CheckpointDirectory::own_name; });
  if (own) throw Error(output.name, output.path.string() + ", in a folder that is a run's own", "another place");
}

/// \throws Error on the folder of a run: with a draft of its own it would no longer mean the run's newest checkpoint
inline void refuse_run_folder(const io::NamedPath& output) {
  refuse_runs_own(output);
  std::error_code ignored;
  const bool marked = std::filesystem::exists(output.path / CheckpointDirectory::own_name, ignored);
  if (!marked && !CheckpointDirectory(output.path).newest()) return;
  throw Error(output.name, output.path.string() + ", the folder of a training run", "another one, or a new one in it");
}

}  // namespace k3spec::examples
