#pragma once
/// \file
/// Which folder is meant by a draft's: of a run's folder, its newest checkpoint. A run names that by the link `latest`,
/// which copies lose: some tools leave it out, or put a whole folder or a small file in its place.
/// defines: draft_config_name, DraftFolder, draft_folder

#include <filesystem>
#include <string>
#include <system_error>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/io/newest_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// The file that says what a draft is.
inline constexpr const char* draft_config_name = "config.json";

/// Where a draft is.
struct DraftFolder {
  std::filesystem::path path;
  std::string note = {};  ///< for the user, as messages may show it; empty: nothing is odd
};

namespace detail {

inline constexpr const char* latest_checkpoint_name = "latest";

inline bool is_draft_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path / draft_config_name, ignored);
}

/// What `latest` names, be it a link or what a copy has in its place. \param newest  of the same run
inline DraftFolder latest_checkpoint(const std::filesystem::path& latest, const std::filesystem::path& newest) {
  std::error_code ignored;
  const auto link = std::filesystem::read_symlink(latest, ignored);
  const bool is_link = !ignored;
  if (is_draft_folder(latest)) {
    if (is_link) return {latest.parent_path() / link};
    return {latest, printable(latest.string() + ": a folder of its own, no link to a checkpoint: what is in " +
                              newest.string() + " may be newer")};
  }
  const auto kind = std::filesystem::symlink_status(latest, ignored).type();
  const std::string found = is_link ? "a link to " + link.string() + ", which is no checkpoint"
                            : kind == std::filesystem::file_type::not_found ? "nothing"
                            : kind == std::filesystem::file_type::regular   ? "a file"
                                                                            : "no checkpoint";
  throw Error(latest.string(), found + ", where a run has a link to its newest checkpoint",
              "a checkpoint by its name: the newest is " + newest.string());
}

}  // namespace detail

/// The folder of the draft that a path stands for.
/// \param path  a draft's folder, or a run's, or `latest` in a run's
/// \throws Error on a run that has checkpoints, but no `latest` that leads to one: any choice would be a guess
inline DraftFolder draft_folder(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const fs::path given = path.has_filename() || !path.has_parent_path() ? path : path.parent_path();  // no slash behind
  if (given.filename() == detail::latest_checkpoint_name) {
    const auto newest =
        newest_checkpoint(given.has_parent_path() ? given.parent_path() : fs::path("."), detail::is_draft_folder);
    return newest ? detail::latest_checkpoint(given, *newest) : DraftFolder{given};
  }
  if (detail::is_draft_folder(given)) return {given};
  const auto newest = newest_checkpoint(given, detail::is_draft_folder);
  return newest ? detail::latest_checkpoint(given / detail::latest_checkpoint_name, *newest) : DraftFolder{given};
}

}  // namespace K3SPEC_NAMESPACE
