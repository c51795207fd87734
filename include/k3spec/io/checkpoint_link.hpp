#pragma once
/// \file
/// A link in a run's folder that leads to one of its checkpoints.
/// defines: detail::CheckpointLink

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/checkpoint_name.hpp>
#include <k3spec/io/checkpoint_places.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// The link ROOT/NAME.
class CheckpointLink {
 public:
  using Path = std::filesystem::path;

  /// \param made  where a link is made that is to stand in its place
  /// \param what  the checkpoint that it is to lead to, for messages
  CheckpointLink(Path root, const char* name, Path made, const char* what)
      : root_(std::move(root)), name_(name), made_(std::move(made)), what_(what) {}

  Path path() const { return root_ / name_; }
  /// What it leads to; empty for what is no link.
  Path target() const { return link_target(path()); }
  /// The checkpoint that it leads to, if that is there.
  std::optional<Path> checkpoint() const {
    const Path to = target();
    if (to.empty() || !detail::is_directory(root_ / to)) return std::nullopt;
    return root_ / to;
  }

  /// \param knows  (name of a checkpoint) -> whether it is the run's
  /// \throws Error on a link that is somebody's own
  template <class Knows>
  void check(Knows&& knows) const {
    const Path to = target();
    if (!is_there(path()) || is_own(to, knows)) return;
    throw Error(
        path().string(),
        to.empty() ? "something else than a link" : "a link to " + to.string() + ", which is no checkpoint of the run",
        std::string("a link to the ") + what_ + " checkpoint, or nothing");
  }
  /// \throws Error when something stands where the link is made
  void check_place() const {
    if (is_there(made_)) throw Error(made_.string(), "a directory", "nothing, or what the run left there");
  }

  /// Turns it to a checkpoint, durably.
  /// \throws Error when the disk fails
  void turn_to(const std::string& checkpoint) const {
    std::error_code failed;
    std::filesystem::remove(made_, failed);
    std::filesystem::create_directory_symlink(checkpoint, made_, failed);  // what it names, it names in the root
    check_done(failed, made_, "a link that can be created");
    io::detail::replace(made_, path());
  }
  void remove() const { ::unlink(path().c_str()); }

 private:
  /// Whether it leads to a checkpoint of the run, by whatever path, or to one that is gone.
  template <class Knows>
  bool is_own(const Path& to, Knows&& knows) const {
    const std::string name = to.filename().string();
    std::error_code failed;
    if (!checkpoint_step(name) || !std::filesystem::equivalent((root_ / to).parent_path(), root_, failed)) return false;
    return !is_there(root_ / name) || knows(name) || has_checkpoint(root_ / name);
  }

  Path root_;
  const char* name_;
  Path made_;
  const char* what_;
};

}  // namespace K3SPEC_NAMESPACE::detail
