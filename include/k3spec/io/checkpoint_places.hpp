#pragma once
/// \file
/// What stands in a run's folder, by its name and by what is in it, and where its link leads.
/// defines: detail::is_directory, detail::is_there, detail::has_checkpoint, detail::holds_checkpoint, detail::names_in,
/// detail::link_target, detail::check_done, detail::create_anew, detail::move_durably, detail::files_in

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/io/atomic_file.hpp>

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

/// What a link leads to, without a slash behind; empty for what is no link.
inline std::filesystem::path link_target(const std::filesystem::path& link) {
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::read_symlink(link, failed);
  return target.has_filename() ? target : target.parent_path();
}

/// \throws Error naming the path where something has failed
inline void check_done(const std::error_code& failed, const std::filesystem::path& path, std::string_view wanted) {
  if (failed) throw Error(path.string(), failed.message(), wanted);
}

/// A directory with nothing in it, whatever was there.
inline void create_anew(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  check_done(failed, path, "a directory that can be removed");
  std::filesystem::create_directory(path, failed);
  check_done(failed, path, "a directory that can be created");
}

/// Moves a directory, so that a loss of power does not undo it.
inline void move_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failed;
  std::filesystem::rename(from, to, failed);
  check_done(failed, to, "a directory that can be moved here");
  io::detail::sync_directory(to.parent_path());
}

/// The names of a directory's files, ascending.
/// \throws Error on a directory among them
inline std::vector<std::string> files_in(const std::filesystem::path& directory) {
  std::error_code failed;
  std::vector<std::string> all = names_in(directory, failed);
  check_done(failed, directory, "a directory that can be read");
  for (const std::string& name : all) {
    if (detail::is_directory(directory / name)) throw Error((directory / name).string(), "a directory", "files only");
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE
