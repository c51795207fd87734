#pragma once
/// \file
/// What stands in a run's folder, by its name and by what is in it.
/// defines: CheckpointAge, checkpoint_age

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/core/extents.hpp>
#include <k3spec/drafts/checkpoint_name.hpp>

namespace K3SPEC_NAMESPACE {

/// A checkpoint's step, and how often that had been saved before: the larger, the newer.
using CheckpointAge = std::pair<index_t, index_t>;

/// \param name  one of checkpoint_name's
inline CheckpointAge checkpoint_age(const std::string& name) {
  const index_t step = *checkpoint_step(name);
  const auto at = name.find(detail::checkpoint_again);
  if (at == std::string::npos) return {step, 0};
  index_t again = 1;  // of ".again"
  std::from_chars(name.data() + at + detail::checkpoint_again.size(), name.data() + name.size(), again);
  return {step, again};
}

namespace detail {

/// A directory itself, not a link to one.
inline bool is_directory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::directory;
}

inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

/// Whether a directory, or what a link to one leads to, has a checkpoint's files.
inline bool has_checkpoint(const std::filesystem::path& path) {
  return is_there(path / "model.safetensors") || is_there(path / "trainer.json");
}

/// A checkpoint that no manifest speaks of.
inline bool holds_checkpoint(const std::filesystem::path& path) {
  return detail::is_directory(path) && has_checkpoint(path);
}

inline std::vector<std::string> names_in(const std::filesystem::path& directory, std::error_code& failed) {
  std::vector<std::string> all;
  std::filesystem::directory_iterator at(directory, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    all.push_back(at->path().filename().string());
  }
  return all;
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE
