#pragma once
/// \file
/// The newest checkpoint in a run's folder, by its name.
/// defines: newest_checkpoint

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <k3spec/io/checkpoint_name.hpp>

namespace K3SPEC_NAMESPACE {

/// The checkpoint of the highest step, and of several of one step that with the last number behind `.again`.
/// \param is_one  (path) -> whether it is a checkpoint, and not only called so
template <class F>
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run, F&& is_one) {
  std::optional<std::filesystem::path> best;
  CheckpointAge age;
  std::error_code failed;
  std::filesystem::directory_iterator at(run, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!checkpoint_step(name) || (best && checkpoint_age(name) <= age) || !is_one(at->path())) continue;
    best = at->path(), age = checkpoint_age(name);
  }
  return best;
}

}  // namespace K3SPEC_NAMESPACE
