#pragma once
/// \file
/// Checkpoints of a run, of which there is always a whole one: DIR/step-00000120/ and so on, and the link DIR/latest to
/// the newest; DIR/best leads to the one that its run called the best. A step is written in DIR/.k3spec, moved to its
/// place when all its files are on the disk, and only then does `latest` turn to it. What fails up to the turn leaves
/// `latest` at the checkpoint it named before; what fails after it (removing old checkpoints) leaves it at the new one.
/// Either is whole.
///
/// Files of others may lie beside: only what DIR/.k3spec/manifest.json says was written here is ever removed, and what
/// is left in DIR/.k3spec itself by a crash. One process at a time writes (io/run_lock.hpp); reading needs no lock.
/// defines: CheckpointDirectory

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/checkpoint_link.hpp>
#include <k3spec/io/checkpoint_manifest.hpp>
#include <k3spec/io/checkpoint_places.hpp>
#include <k3spec/io/newest_checkpoint.hpp>
#include <k3spec/io/run_lock.hpp>

namespace K3SPEC_NAMESPACE {

/// The folder of a training run: its checkpoints and the links `latest` and `best`.
class CheckpointDirectory {
 public:
  using Path = std::filesystem::path;
  static constexpr const char *latest_name = "latest", *best_name = "best";
  /// The folder that is the run's own.
  static constexpr const char* own_name = ".k3spec";

  /// A run's folder, which need not be there yet.
  /// \param keep  the newest so many checkpoints stay, and the best one
  explicit CheckpointDirectory(Path root, index_t keep = 2) : root_(std::move(root)), keep_(keep) {
    if (keep < 1) throw Error("checkpoints to keep", fmt::format("{}", keep), "at least 1");
  }

  /// Called with a name before each stage of `save`; tests stop there.
  std::function<void(std::string_view stage)> before = [](std::string_view) {};

  const Path& root() const { return root_; }

  /// Where the newest whole checkpoint is; none before the first.
  std::optional<Path> latest() const { return latest_link().checkpoint(); }

  /// Where the checkpoint is that `best` leads to; none before a run called one so.
  std::optional<Path> best() const { return best_link().checkpoint(); }

  /// The checkpoint of the highest step, and of several of one step that with the last number behind `.again`, whether
  /// or not `latest` names it: a copy of a directory may have lost its links. A folder that is only called so is none.
  std::optional<Path> newest() const {
    const auto manifest = CheckpointManifest::read(manifest_file());
    return newest_checkpoint(root_, [&](const Path& path) {
      return (manifest && manifest->knows(path.filename().string())) || detail::holds_checkpoint(path);
    });
  }

  /// Makes the directory, takes it for this process as long as this object lives, and removes what a run left there
  /// that was cut off.
  /// \throws Error, before a run finds out after hours, when no checkpoint could be saved in it; naming the process
  ///         when another one is at work in it
  void prepare() {
    std::error_code ignored;
    if (std::filesystem::is_symlink(own(), ignored))
      throw Error(own().string(), "a link", "the run's own folder, or nothing");
    if (lock_) {
      lock_->renew();
    } else {
      lock_ = std::make_unique<RunLock>(own() / "lock", root_);
    }
    if (::access(root_.c_str(), W_OK | X_OK) != 0) {
      throw Error(root_.string(), io::last_system_error(), "a directory that can be written");
    }
    auto manifest = CheckpointManifest::read(manifest_file());
    has_manifest_ = manifest.has_value();
    manifest_ = std::move(manifest).value_or(CheckpointManifest{});
    try {
      check_links();
      finish_removals();
      clean();
      latest_link().check_place(), best_link().check_place();
    } catch (...) {
      manifest_.reset();
      throw;
    }
  }

  /// Whether a second run here would be noticed, after `prepare`: not where the file system has no locks.
  bool guarded() const { return lock_ && lock_->guards(); }

  /// Checkpoints, and parts of them, that a run before there were manifests left here, after `prepare`: they stay, for
  /// nothing says that they may go.
  std::vector<std::string> unknown() const {
    std::vector<std::string> all;
    if (has_manifest_) return all;
    for (const std::string& name : names()) {
      const bool half = name.ends_with(".tmp") && checkpoint_step(name.substr(0, name.find(".tmp")));
      if (half || (checkpoint_step(name) && detail::holds_checkpoint(root_ / name))) all.push_back(name);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  /// What a user means by a directory: its newest checkpoint if it has some, else itself.
  static Path resolve(const Path& directory) { return CheckpointDirectory(directory).latest().value_or(directory); }

  /// Turns `best` to the checkpoint for which `value(path)` is highest, of those up to the latest one that are this
  /// run's, unknown() or what `best` leads to; the first one of equals. Where it is of none a number there is no `best`
  /// then.
  /// \param value  (directory) -> optional<double>
  /// \returns what it is
  template <class F>
  std::optional<double> find_best(F&& value) {
    if (!manifest_) prepare();
    check_links();
    const auto last = latest();
    std::optional<double> most;
    std::string best;
    for (const std::string& name : best_candidates()) {
      if (!last || checkpoint_age(name) > checkpoint_age(last->filename().string())) continue;
      const std::optional<double> found = value(root_ / name);
      if (found && (!most || *found > *most)) most = found, best = name;
    }
    if (!most) best_link().remove();
    if (most && best != best_link().target()) best_link().turn_to(best);
    return most;
  }

  /// Lets `write(directory)` fill a new checkpoint with files, makes it the latest, and the best where `best` says so,
  /// and removes old ones.
  /// \throws Error when the disk fails, or `write` makes a directory, and what `write` throws; nothing half written
  ///         stays. `latest` is then what it was, or, when only removing old checkpoints failed, the new one; what was
  ///         not removed, the next save removes. After a failed sync a loss of power may turn `latest` to either of two
  ///         whole checkpoints: old ones are removed only once the turn is durable.
  template <class Write>
  void save(index_t step, Write&& write, bool best = false) {
    if (!manifest_) prepare();
    lock_->renew();
    check_links();
    try {
      const Path beside = own() / new_name;
      before("create");
      detail::create_anew(beside);
      write(beside);
      before("sync");
      io::detail::sync_directory(beside);
      const std::string name = free_name(step);
      before("manifest");
      manifest_->checkpoints[name] = detail::files_in(beside);
      manifest_->store(manifest_file());
      before("move");
      detail::move_durably(beside, root_ / name);
      before("latest");
      check_links();
      latest_link().turn_to(name);
      if (best) {
        before("best");
        best_link().turn_to(name);
      }
      before("prune");
      prune(name);
      before("forget");
      manifest_->store(manifest_file());
    } catch (...) {
      clean();
      throw;
    }
  }

 private:
  // In the own folder: a checkpoint that is being written, and one that is being removed.
  static constexpr const char *new_name = "new", *removed_end = ".removed", *manifest_name = "manifest.json";

  Path own() const { return root_ / own_name; }
  Path manifest_file() const { return own() / manifest_name; }

  std::vector<std::string> names() const {
    std::error_code ignored;
    return detail::names_in(root_, ignored);
  }

  detail::CheckpointLink latest_link() const { return {root_, latest_name, own() / latest_name, "newest"}; }
  detail::CheckpointLink best_link() const { return {root_, best_name, own() / best_name, "best"}; }

  /// \throws Error on a link that is somebody's own
  void check_links() const {
    const auto knows = [&](const std::string& name) { return manifest_->knows(name); };
    latest_link().check(knows), best_link().check(knows);
  }
  /// Names of checkpoints that may be the best.
  std::set<std::string> best_candidates() const {
    std::set<std::string> all = manifest_->names();
    for (const std::string& name : unknown()) all.insert(name);
    if (const auto to = best(); to && detail::holds_checkpoint(*to)) all.insert(to->filename().string());
    std::erase_if(all, [](const std::string& name) { return !checkpoint_step(name); });
    return all;
  }
  /// Whether a link leads to the checkpoint of this name.
  bool is_linked(const std::string& name) const {
    return name == latest_link().target().filename() || name == best_link().target().filename();
  }

  /// The step's first name that is free, or that a checkpoint of this run has which no link names.
  std::string free_name(index_t step) {
    for (index_t again = 0;; ++again) {
      const std::string name = checkpoint_name(step, again);
      if (is_linked(name)) continue;
      if (manifest_->knows(name)) remove(name);
      if (!detail::is_there(root_ / name)) return name;
    }
  }

  /// Removes the files of a checkpoint of this run so that its name never stands for a part of it. What else lies in it
  /// stays there.
  void remove(const std::string& name) {
    if (detail::is_directory(root_ / name)) {
      std::error_code failed;
      std::filesystem::rename(root_ / name, own() / (name + removed_end), failed);
      detail::check_done(failed, root_ / name, "a directory that can be moved");
      finish_removal(name);
    }
    manifest_->checkpoints.erase(name);
  }

  void finish_removal(const std::string& name) const {
    const Path moved = own() / (name + removed_end);
    for (const std::string& file : manifest_->checkpoints.at(name)) {
      if (!detail::is_directory(moved / file) && ::unlink((moved / file).c_str()) != 0 && errno != ENOENT) {
        throw Error((moved / file).string(), io::last_system_error(), "a file that can be removed");
      }
    }
    if (::rmdir(moved.c_str()) == 0) return;
    std::error_code failed;
    std::filesystem::rename(moved, root_ / name, failed);
    detail::check_done(failed, moved, "a directory that can be moved back, with files that are not this run's");
  }

  /// Those that a crash cut off; and what is no longer there is forgotten.
  void finish_removals() {
    std::error_code ignored;
    const auto here = names(), moving = detail::names_in(own(), ignored);
    const std::set<std::string> at_place(here.begin(), here.end()), moved(moving.begin(), moving.end());
    std::vector<std::string> gone;
    for (const auto& [name, files] : manifest_->checkpoints) {
      const bool removed = moved.count(name + removed_end) != 0 && detail::is_directory(own() / (name + removed_end));
      if (removed) finish_removal(name);
      if (removed || at_place.count(name) == 0 || !detail::is_directory(root_ / name)) gone.push_back(name);
    }
    for (const std::string& name : gone) manifest_->checkpoints.erase(name);
  }

  /// Removes what was being written when a save ended.
  void clean() const {
    std::error_code ignored;
    std::filesystem::remove_all(own() / new_name, ignored);
    for (const std::string& name : detail::names_in(own(), ignored)) {
      const bool half =
          name == latest_name || name == best_name || name.rfind(std::string(manifest_name) + ".tmp", 0) == 0;
      if (half) ::unlink((own() / name).c_str());
    }
  }

  /// Removes checkpoints of this run beyond the newest `keep_`, and later ones than `latest` (of a run that got further
  /// and was taken up before), but not the best one.
  void prune(const std::string& latest) {
    const index_t newest = *checkpoint_step(latest);
    std::vector<std::pair<index_t, std::string>> old;
    for (const auto& [name, files] : manifest_->checkpoints) {
      const index_t step = *checkpoint_step(name);
      if (!is_linked(name)) old.emplace_back(step < newest ? step : -1, name);
    }
    std::sort(old.rbegin(), old.rend());
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (old[i].first < 0 || static_cast<index_t>(i) >= keep_ - 1) remove(old[i].second);
    }
  }

  Path root_;
  index_t keep_;
  std::unique_ptr<RunLock> lock_;
  std::optional<CheckpointManifest> manifest_;
  bool has_manifest_ = false;
};

}  // namespace K3SPEC_NAMESPACE
