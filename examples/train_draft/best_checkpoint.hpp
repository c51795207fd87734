#pragma once
/// \file
/// The best checkpoint of a run that goes on: by what the checkpoints say that are there. Where its link led elsewhere,
/// or to none any more, or a checkpoint does not say how good it is, that is told.
/// defines: find_best

#include <filesystem>
#include <optional>
#include <string>

#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

#include "../common/program.hpp"

namespace k3spec::examples {

/// Turns `best` to the best of the checkpoints that were measured on this text, on as many of its windows.
/// \returns its accept length, if any has one
/// \throws Error when the link is somebody's own
inline std::optional<double> find_best(CheckpointDirectory& checkpoints, const Fingerprint& held_out, index_t windows) {
  const auto link = checkpoints.root() / CheckpointDirectory::best_name;
  const auto led_to = [&]() -> std::string {
    std::error_code none;
    return std::filesystem::read_symlink(link, none).filename().string();
  };
  const std::string before = led_to();
  const auto most = checkpoints.find_best([&](const std::filesystem::path& path) -> std::optional<double> {
    try {
      const TrainerProgress progress = read_trainer_progress(path);
      const auto& data = progress.sources.data;
      const bool same = data && data->held_out == held_out && progress.heldout.windows == windows;
      return same ? progress.heldout.accept_length : std::nullopt;
    } catch (const Error& e) {
      say(fmt::format("note: {}: it is not asked how good it is", printable(e.what())));
      return std::nullopt;
    }
  });
  const std::string after = led_to();
  if (before != after) {
    const auto shown = [](const std::string& name) { return name.empty() ? "nothing" : printable(name); };
    say(fmt::format("note: {}: led to {}, leads to {} now: the best of the checkpoints that are there",
                    printable(link.string()), shown(before), shown(after)));
  }
  return most;
}

}  // namespace k3spec::examples
