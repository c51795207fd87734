#pragma once
/// \file
/// The files of a cache of features, in one folder:
/// ```text
/// features.json             the plan (FeaturePlan); when the cache is whole, every file's size and checksum, and a
///                           checksum of this one
/// training.safetensors      the tokens, with loss mask and documents, as io/token_shards.hpp reads them
/// held_out.safetensors      the same of what is held out
/// tables.safetensors        embed_tokens and lm_head [vocabulary, hidden]
/// states-00000.safetensors  of each window of a shard, n in all, R = n · length, row by row: ids [n, length],
///                           seq_lens [n, length] where documents are apart, tapped [R, taps · hidden], last
///                           [R, hidden], post-norm, top [R], the target's choice of the next token; where states
///                           are float8_e4m3fn also tapped_scale [R, taps] and last_scale [R], by which they are
///                           multiplied
/// ```
/// defines: FeatureFiles, bytes_fingerprint, FeatureManifest

#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/backend/byte_hash.hpp>
#include <k3spec/batches/feature_plan.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/mapped_file.hpp>

namespace K3SPEC_NAMESPACE {

/// Their names.
struct FeatureFiles {
  static constexpr const char *json = "features.json", *training = "training.safetensors",
                              *held_out = "held_out.safetensors", *tables = "tables.safetensors";

  static std::string shard(index_t i) { return fmt::format("states-{:05}.safetensors", i); }
  /// All but features.json, in their order.
  static std::vector<std::string> of(const FeaturePlan& plan) {
    std::vector<std::string> names{training, held_out, tables};
    for (index_t i = 0; i < plan.shards(); ++i) names.push_back(shard(i));
    return names;
  }
};

/// Of bytes in the host's memory, by a device: the same on every device. Where it does not share the host's memory,
/// some of them are there at a time.
template <Device D>
Fingerprint bytes_fingerprint(const D& device, std::span<const std::byte> bytes) {
  const auto size = static_cast<index_t>(bytes.size());
  const index_t most = shares_memory<D> ? std::max<index_t>(size, 1) : 1024 * hash_block;
  Fingerprint all;
  for (index_t begin = 0; begin < size; begin += most) {
    const index_t n = std::min(most, size - begin);
    const Held<D, std::byte, dyn> held(device, Vector<const std::byte>(bytes.data() + begin, n));
    all = fingerprint(device, {held.view().data(), static_cast<std::size_t>(n)}, all);
  }
  return all;
}

/// features.json: a plan, and the files that were made of it.
class FeatureManifest {
 public:
  /// A file, and what it must be.
  struct File {
    std::string name;
    std::uint64_t bytes;
    Fingerprint checksum;
  };

  /// Of files that are all there.
  /// \throws Error when one cannot be read
  template <Device D>
  static FeatureManifest of(const D& device, const std::filesystem::path& folder, FeaturePlan plan) {
    FeatureManifest all{std::move(plan)};
    for (const std::string& name : FeatureFiles::of(all.plan_)) {
      const io::MappedFile file(folder / name);
      all.files_.push_back({name, file.size(), bytes_fingerprint(device, file.bytes())});
    }
    return all;
  }
  /// Of a capture that has begun.
  explicit FeatureManifest(FeaturePlan plan) : plan_(std::move(plan)) {}

  /// Reads the JSON of a folder, and no other file.
  /// \throws Error naming the file, and what in it is absent, out of range or not what was written
  static FeatureManifest read(const std::filesystem::path& folder) {
    const std::string file = (folder / FeatureFiles::json).string();
    io::json j = io::read_json(folder / FeatureFiles::json);
    const Fingerprint checksum = detail::PlanReader(j, file).fingerprint("checksum");
    j.erase("checksum");
    if (const Fingerprint found = checksum_of(j); found != checksum) {
      throw Error(file + ": checksum", checksum.text(), found.text() + ", that of what it says");
    }
    FeatureManifest all(FeaturePlan::from_json(j, file));
    const detail::PlanReader reader(j, file);
    const io::json& files = reader.list("files");
    if (files.empty()) return all;
    for (const io::json& one : files) {
      const detail::PlanReader of_file(one, reader.subject("files"));
      const io::json &name = of_file.member("name"), &bytes = of_file.member("bytes");
      if (!name.is_string() || !io::detail::as_index(bytes)) throw Error(reader.subject("files"), one.dump(), "a file");
      all.files_.push_back({name.get<std::string>(), bytes.get<std::uint64_t>(), of_file.fingerprint("checksum")});
    }
    all.check_names(file);
    return all;
  }

  /// Writes the JSON into a folder, at once.
  void write(const std::filesystem::path& folder) const {
    io::json j = plan_.to_json();
    io::json& files = j["files"] = io::json::array();
    for (const File& f : files_) {
      files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"checksum", f.checksum.text()}});
    }
    j["checksum"] = checksum_of(j).text();
    io::write_text(folder / FeatureFiles::json, j.dump(2) + "\n");
  }

  const FeaturePlan& plan() const { return plan_; }
  /// None until the cache is whole.
  const std::vector<File>& files() const { return files_; }
  bool whole() const { return !files_.empty(); }

  /// Refuses a cache that is not whole.
  /// \throws Error naming its folder
  void require_whole(const std::filesystem::path& folder) const {
    if (whole()) return;
    throw Error((folder / FeatureFiles::json).string() + ": files", "none: a capture that was not finished",
                "a finished one: the same capture goes on with it");
  }

 private:
  static Fingerprint checksum_of(const io::json& j) {
    const std::string text = j.dump();
    return {detail::hash_bytes(std::as_bytes(std::span(text.data(), text.size())))};
  }
  void check_names(const std::string& file) const {
    const std::vector<std::string> wanted = FeatureFiles::of(plan_);
    for (std::size_t i = 0; i < std::max(wanted.size(), files_.size()); ++i) {
      const std::string found = i < files_.size() ? files_[i].name : "nothing";
      if (i < wanted.size() && found == wanted[i]) continue;
      throw Error(file + ": files", found, i < wanted.size() ? wanted[i] : "nothing more");
    }
  }

  FeaturePlan plan_;
  std::vector<File> files_;
};

}  // namespace K3SPEC_NAMESPACE
