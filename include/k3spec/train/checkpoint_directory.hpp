#pragma once
/// \file
/// Checkpoints of a run, of which there is always a whole one: DIR/step-00000120/ and so on, and the link DIR/latest to
/// the newest. A step is written beside its place, moved there when all its files are on the disk, and only then does
/// `latest` turn to it. What fails up to the turn leaves `latest` at the checkpoint it named before; what fails after
/// it (removing old checkpoints) leaves it at the new one. Either is whole.
/// defines: CheckpointDirectory

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/atomic_file.hpp>

namespace K3SPEC_NAMESPACE {

class CheckpointDirectory {
 public:
  using Path = std::filesystem::path;
  static constexpr const char* latest_name = "latest";

  /// \param keep  the newest so many checkpoints stay
  explicit CheckpointDirectory(Path root, index_t keep = 2) : root_(std::move(root)), keep_(keep) {
    if (keep < 1) throw Error("checkpoints to keep", fmt::format("{}", keep), "at least 1");
  }

  /// Called with a name before each stage of `save`; tests stop there.
  std::function<void(std::string_view stage)> before = [](std::string_view) {};

  const Path& root() const { return root_; }

  /// Where the newest whole checkpoint is; none before the first.
  std::optional<Path> latest() const {
    const std::string name = latest_target();
    if (name.empty() || !std::filesystem::is_directory(root_ / name)) return std::nullopt;
    return root_ / name;
  }

  /// The checkpoint of the highest step, whether or not `latest` names it: a copy of a directory may have lost its
  /// links.
  std::optional<Path> newest() const {
    std::optional<std::pair<index_t, Path>> best;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(root_, failed)) {
      const auto step = step_of(entry.path().filename().string());
      if (step && (!best || *step > best->first)) best.emplace(*step, entry.path());
    }
    return best ? std::optional(best->second) : std::nullopt;
  }

  /// Makes the directory. \throws Error, before a run finds out after hours, when no checkpoint could be saved in it
  void prepare() const {
    const Path link = root_ / latest_name, trial = root_ / (std::string(prefix) + "trial" + temporary);
    std::error_code failed;
    const auto there = std::filesystem::symlink_status(link, failed);
    if (std::filesystem::exists(there) && !std::filesystem::is_symlink(there)) {
      throw Error(link.string(), "something else than a link", "a link to the newest checkpoint, or nothing");
    }
    create(trial);
    remove_all(trial);
  }

  /// What a user means by a directory: its newest checkpoint if it has some, else itself.
  static Path resolve(const Path& directory) { return CheckpointDirectory(directory).latest().value_or(directory); }

  /// Lets `write(directory)` fill a new checkpoint, makes it the latest and removes old ones.
  /// \throws Error when the disk fails, and what `write` throws. `latest` is then what it was, or, when only removing
  ///         old checkpoints failed, the new one; what was not removed, the next save removes. After a failed sync a
  ///         loss of power may turn `latest` to either of two whole checkpoints: old ones are removed only once the
  ///         turn is durable.
  template <class Write>
  void save(index_t step, Write&& write) {
    const std::string name = free_name(step);
    const Path beside = root_ / (name + temporary);
    before("create");
    create(beside);
    write(beside);
    before("sync");
    io::detail::sync_directory(beside);
    before("move");
    move(beside, root_ / name);
    before("latest");
    point_to(name);
    before("prune");
    prune(name);
  }

 private:
  static constexpr std::string_view prefix = "step-", again = ".again";
  static constexpr const char* temporary = ".tmp";

  static bool ends_with(std::string_view s, std::string_view end) {
    return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
  }

  /// The step of a checkpoint's name; none of other names.
  static std::optional<index_t> step_of(std::string_view name) {
    if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
    name.remove_prefix(prefix.size());
    if (ends_with(name, again)) name.remove_suffix(again.size());
    index_t step = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (failed != std::errc{} || end != name.data() + name.size()) return std::nullopt;
    return step;
  }

  std::string latest_target() const {
    std::error_code failed;
    return std::filesystem::read_symlink(root_ / latest_name, failed).string();
  }

  /// The step's name, or its second name while the first is the latest checkpoint.
  std::string free_name(index_t step) const {
    std::string name = fmt::format("{}{:08}", prefix, step);
    if (latest_target() == name) name += again;
    return name;
  }

  static void check(const std::error_code& failed, const Path& path, std::string_view wanted) {
    if (failed) throw Error(path.string(), failed.message(), wanted);
  }

  static void remove_all(const Path& path) {
    std::error_code failed;
    std::filesystem::remove_all(path, failed);
    check(failed, path, "a directory that can be removed");
  }

  static void create(const Path& path) {
    remove_all(path);
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    check(failed, path, "a directory that can be created");
  }

  /// What stands at `to` is no checkpoint that `latest` names.
  void move(const Path& from, const Path& to) const {
    discard(to);
    std::error_code failed;
    std::filesystem::rename(from, to, failed);
    check(failed, to, "a directory that can be moved here");
    io::detail::sync_directory(root_);
  }

  void point_to(const std::string& name) const {
    const Path link = root_ / latest_name, beside = root_ / (latest_name + std::string(temporary));
    std::error_code failed;
    std::filesystem::remove(beside, failed);
    std::filesystem::create_directory_symlink(name, beside, failed);
    check(failed, beside, "a link that can be created");
    io::detail::replace(beside, link);
  }

  /// Removes a checkpoint so that its name never stands for a part of it.
  void discard(const Path& path) const {
    if (!std::filesystem::exists(path)) return;
    Path beside = path;
    beside += temporary;
    beside += temporary;
    remove_all(beside);
    std::error_code failed;
    std::filesystem::rename(path, beside, failed);
    check(failed, path, "a directory that can be moved");
    remove_all(beside);
  }

  /// Removes checkpoints beyond the newest `keep_`, later ones than `latest` (of a run that got further and was taken
  /// up before), and what a crash left half written.
  void prune(const std::string& latest) const {
    const index_t newest = *step_of(latest);
    std::vector<std::pair<index_t, std::string>> old;
    std::vector<Path> leftovers;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory() || entry.is_symlink() || name == latest || name.rfind(prefix, 0) != 0) continue;
      if (ends_with(name, temporary)) leftovers.push_back(entry.path());
      if (const auto step = step_of(name)) old.emplace_back(*step < newest ? *step : -1, name);
    }
    for (const Path& path : leftovers) remove_all(path);
    std::sort(old.rbegin(), old.rend());
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (old[i].first < 0 || static_cast<index_t>(i) >= keep_ - 1) discard(root_ / old[i].second);
    }
  }

  Path root_;
  index_t keep_;
};

}  // namespace K3SPEC_NAMESPACE
