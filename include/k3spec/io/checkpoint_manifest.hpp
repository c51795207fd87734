#pragma once
/// \file
/// Which checkpoints in a folder a run wrote, and which files in them: only these may be removed. What else lies there
/// is somebody else's, whatever it is called.
/// ```text
/// {"format": 1, "checkpoints": {"step-00000120": ["config.json", "model.safetensors"]}}
/// ```
/// defines: CheckpointManifest

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/checkpoint_name.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE {

/// The checkpoints that a run wrote into a folder, with their files.
class CheckpointManifest {
 public:
  using Path = std::filesystem::path;
  /// Names of files, by the checkpoint that they lie in.
  using Checkpoints = std::map<std::string, std::vector<std::string>>;

  Checkpoints checkpoints;

  bool knows(const std::string& name) const { return checkpoints.count(name) != 0; }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& [name, files] : checkpoints) all.insert(name);
    return all;
  }

  /// The manifest of a folder.
  /// \returns none where there is no such file
  /// \throws Error naming the file and a way out, when it is no manifest, or names what cannot be a checkpoint's
  static std::optional<CheckpointManifest> read(const Path& file) {
    std::error_code failed;
    if (std::filesystem::symlink_status(file, failed).type() == std::filesystem::file_type::not_found) return {};
    try {
      return read_whole(file);
    } catch (const Error& e) {
      throw Error(e.subject(), e.found(),
                  e.wanted() + "; moved away, it leaves the checkpoints that are there, and a run goes on without it");
    }
  }

  /// Replaces the file, durably.
  void store(const Path& file) const {
    const io::json j{{"format", format}, {"checkpoints", checkpoints}};
    io::write_text(file, j.dump(2, io::Utf8::replace) + "\n");
  }

 private:
  static constexpr int format = 1;
  static constexpr std::size_t longest_shown = 80;

  static CheckpointManifest read_whole(const Path& file) {
    const io::json j = io::parse_json(io::read_file(file), file.string());
    check_format(j, file.string());
    const auto all = j.find("checkpoints");
    const std::string subject = file.string() + ": checkpoints";
    if (all == j.end() || !all->is_object()) throw Error(subject, "no object", "names and files of checkpoints");
    CheckpointManifest manifest;
    for (const auto& [name, files] : all->items()) manifest.checkpoints[name] = read_files(subject, name, files);
    return manifest;
  }

  static void check_format(const io::json& j, const std::string& file) {
    const auto found = j.is_object() ? j.find("format") : j.end();
    if (found != j.end() && *found == format) return;
    throw Error(file + ": format", found == j.end() ? "nothing" : io::detail::excerpt(*found), std::to_string(format));
  }

  /// As checkpoint_name writes it.
  static bool is_checkpoint(const std::string& name) {
    const auto step = checkpoint_step(name);
    return step && name.substr(0, name.find(detail::checkpoint_again)) == checkpoint_name(*step);
  }

  /// What it names is removed: nothing outside a checkpoint.
  static std::vector<std::string> read_files(const std::string& subject, const std::string& name,
                                             const io::json& files) {
    const std::string shown = printable(name, longest_shown);
    if (!is_checkpoint(name)) throw Error(subject, shown, "a checkpoint's name");
    if (!files.is_array()) throw Error(subject + ": " + shown, io::detail::excerpt(files), "a list of files");
    std::vector<std::string> names;
    for (const io::json& file : files) {
      const std::string text = file.is_string() ? file.get<std::string>() : "";
      if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos) {
        throw Error(subject + ": " + shown, io::detail::excerpt(file), "the name of a file in it");
      }
      names.push_back(text);
    }
    return names;
  }
};

}  // namespace K3SPEC_NAMESPACE
