#pragma once
/// \file
/// Where a capture writes its files (batches/feature_files.hpp).
/// defines: CaptureFolder

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/batches/feature_files.hpp>
#include <k3spec/core/printable.hpp>

namespace K3SPEC_NAMESPACE {

/// The folder of a capture, and what is in it already.
class CaptureFolder {
 public:
  using Path = std::filesystem::path;

  /// Looks at the folder, which need not be there.
  /// \throws Error when it has files that are none of a capture's, or a features.json that cannot be read
  explicit CaptureFolder(Path path) : path_(std::move(path)) {
    std::error_code failed;
    if (std::filesystem::exists(path_ / FeatureFiles::json, failed)) {
      found_.emplace(FeatureManifest::read(path_));
      return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path_, failed)) {
      const std::string name = entry.path().filename().string();
      if (name == lock_folder || is_unfinished(name)) continue;
      throw Error(path_.string(), printable(name) + " and no " + FeatureFiles::json, "an empty folder, or a capture's");
    }
  }

  const Path& path() const { return path_; }
  /// What was captured here before; none: nothing.
  const std::optional<FeatureManifest>& found() const { return found_; }

  /// Refuses to go on with another capture.
  /// \throws Error naming the first member of features.json that is not the plan's
  void check(const FeaturePlan& plan) const {
    if (!found_) return;
    const auto d = detail::first_difference(found_->plan().to_json(), plan.to_json());
    if (d.name.empty()) return;
    throw Error((path_ / FeatureFiles::json).string() + ": " + d.name, io::detail::excerpt(d.found),
                io::detail::excerpt(d.wanted) + ", as this capture would have it; or another folder");
  }

  /// Takes away what a process that was killed had begun to write.
  void remove_unfinished() const {
    std::error_code failed;
    std::vector<Path> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_, failed)) {
      if (is_unfinished(entry.path().filename().string())) all.push_back(entry.path());
    }
    for (const Path& file : all) std::filesystem::remove(file, failed);
  }

  /// Of a capture that is at work.
  Path lock() const { return path_ / lock_folder / "lock"; }

 private:
  static constexpr const char* lock_folder = ".capture";

  /// Whether it is a file of a capture's that io/atomic_file.hpp had not moved to its place yet.
  static bool is_unfinished(const std::string& name) {
    const std::size_t end = name.find(".tmp");
    if (end == std::string::npos) return false;
    const std::string of = name.substr(0, end);
    const bool shard = of.rfind("states-", 0) == 0;
    return shard || of == FeatureFiles::json || of == FeatureFiles::training || of == FeatureFiles::held_out ||
           of == FeatureFiles::tables;
  }

  Path path_;
  std::optional<FeatureManifest> found_;
};

}  // namespace K3SPEC_NAMESPACE
