#pragma once
/// \file
/// What stands in a run's folder, by its name and by what is in it.
/// defines: detail::is_directory, detail::is_there, detail::has_checkpoint, detail::holds_checkpoint, detail::names_in

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

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
