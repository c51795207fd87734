#pragma once
/// \file
/// The tensors of a model, from one safetensors file or from several with an index.
/// defines: io::ModelTensors

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <k3spec/io/safetensors_reader.hpp>

/// \namespace k3spec::io
/// Files of models: safetensors and config.json.

namespace K3SPEC_NAMESPACE::io {

/// The tensors of a directory or file of safetensors, sharded or not.
class ModelTensors {
 public:
  static constexpr const char* single_name = "model.safetensors";
  static constexpr const char* index_name = "model.safetensors.index.json";

  /// Opens all files and reads their headers; no tensor is read.
  /// \param path    a safetensors file, an index (*.json), or a directory that has model.safetensors or else
  ///                model.safetensors.index.json; of a directory with both, the first is read, as transformers does
  /// \param prefix  taken off the names that start with it, e.g. "language_model."
  /// \throws Error as SafetensorsFile::open; on an index that is malformed, names a shard or tensor that is missing,
  ///         or lacks a tensor some shard has; on a tensor in two shards; on two names equal without the prefix
  static ModelTensors open(const std::filesystem::path& path, std::string_view prefix = {}) {
    ModelTensors tensors(path);
    const std::filesystem::path file = tensors.locate(path);
    if (file.extension() == ".json") {
      tensors.add_shards(file);
    } else {
      tensors.files_.push_back(SafetensorsFile::open(file));
    }
    tensors.name_tensors(prefix);
    return tensors;
  }

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// What its user should know though it does not matter to what is read: a sentence each, as messages may show it.
  const std::vector<std::string>& notes() const { return notes_; }

  bool contains(const std::string& name) const { return tensors_.count(name) != 0; }
  /// Ascending, without the prefix.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, at] : tensors_) out.push_back(name);
    return out;
  }

  const TensorInfo& info(const std::string& name) const { return file(name).info(stored_name(name)); }
  DType dtype(const std::string& name) const { return info(name).dtype; }
  const std::vector<index_t>& shape(const std::string& name) const { return info(name).shape; }
  std::vector<std::byte> read_bytes(const std::string& name) const { return file(name).read_bytes(stored_name(name)); }

  template <class T>
  void read_into(const std::string& name, T* out, index_t count) const {
    file(name).read_into(stored_name(name), out, count);
  }
  template <class T, index_t... E>
  void read_into(const std::string& name, const View<T, E...>& out) const {
    file(name).read_into(stored_name(name), out);
  }
  template <class T>
  std::vector<T> read(const std::string& name) const {
    return file(name).template read<T>(stored_name(name));
  }

  /// The file that has the tensor, and the tensor's name there.
  const SafetensorsFile& file(const std::string& name) const { return files_[place(name).file]; }
  const std::string& stored_name(const std::string& name) const { return place(name).stored_name; }

 private:
  struct Place {
    std::size_t file;
    std::string stored_name;
  };

  explicit ModelTensors(const std::filesystem::path& path) : path_(path.string()) {}

  void note(const std::string& subject, const std::string& what) { notes_.push_back(printable(subject + ": " + what)); }

  std::filesystem::path locate(const std::filesystem::path& path) {
    std::error_code ignored;  // what cannot be looked at cannot be opened, and opening says why
    if (!std::filesystem::is_directory(path, ignored)) return path;
    // A link that leads nowhere is there, too: another file in its place would be another model.
    const auto has = [&](const char* name) {
      return std::filesystem::exists(std::filesystem::symlink_status(path / name, ignored));
    };
    const bool single = has(single_name), index = has(index_name);
    if (single && index) {
      note(path.string(),
           std::string(single_name) + " is read, and not the files that " + index_name + " beside it names");
    }
    if (single || index) return path / (single ? single_name : index_name);
    throw Error(path.string(), "neither", std::string(single_name) + " or " + index_name);
  }

  /// Tensor to shard, as the index says.
  static std::map<std::string, std::string> shards_of(const json& root, const std::filesystem::path& index) {
    const auto map = root.is_object() ? root.find("weight_map") : root.end();
    if (map == root.end() || !map->is_object())
      throw Error(index.string() + ": weight_map", "no object", "tensor names to file names");
    std::map<std::string, std::string> shards;
    for (const auto& [name, shard] : map->items()) {
      // A shard lies beside its index: an index from elsewhere must not reach other files.
      if (!shard.is_string() ||
          std::filesystem::path(shard.get<std::string>()).filename() != shard.get<std::string>()) {
        throw Error(detail::tensor_subject(index.string(), name), detail::excerpt(shard),
                    "the name of a file beside the index");
      }
      shards[name] = shard.get<std::string>();
    }
    return shards;
  }

  void add_shards(const std::filesystem::path& index) {
    const json root = parse_json(read_file(index), index.string());
    const auto shards = shards_of(root, index);
    std::map<std::string, std::size_t> opened;
    for (const auto& [name, shard] : shards) {
      if (opened.count(shard) != 0) continue;
      const std::filesystem::path file = index.parent_path() / shard;
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(file, ignored))
        throw Error(detail::tensor_subject(index.string(), name), "no shard " + shard, "the file to exist");
      opened[shard] = files_.size();
      files_.push_back(SafetensorsFile::open(file));
    }
    for (const auto& [name, shard] : shards) {
      if (files_[opened[shard]].contains(name)) continue;
      throw Error(detail::tensor_subject(index.string(), name), shard + " without it", "the tensor in that shard");
    }
    for (const auto& file : files_) check_indexed(file, index.string(), shards);
    note_total_size(root, index.string());
    note_other_shards(index);
  }

  /// Nobody reads tensors by it, so that a wrong one does no harm; but whoever wrote it meant other shards.
  void note_total_size(const json& root, const std::string& index) {
    const auto metadata = root.find("metadata");
    if (metadata == root.end() || !metadata->is_object() || !metadata->contains("total_size")) return;
    const json& total = (*metadata)["total_size"];
    std::uint64_t bytes = 0;
    for (const SafetensorsFile& file : files_) {
      for (const auto& [name, info] : file.tensors()) bytes += info.end - info.begin;
    }
    if (total != bytes) {
      note(index + ": metadata.total_size",
           detail::excerpt(total) + ", where the tensors of its shards take " + std::to_string(bytes) + " bytes");
    }
  }

  /// Files named as shards are that the index does not name: what is left of another copy, or the index is older.
  void note_other_shards(const std::filesystem::path& index) {
    std::set<std::string> known, others;
    for (const SafetensorsFile& file : files_) known.insert(std::filesystem::path(file.path()).filename().string());
    std::error_code failed;
    const auto folder = index.has_parent_path() ? index.parent_path() : std::filesystem::path(".");
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
      const std::string name = entry.path().filename().string();
      const bool shard = name.substr(0, 6) == "model-" && entry.path().extension() == ".safetensors";
      if (shard && known.count(name) == 0) others.insert(name);
    }
    if (others.empty()) return;
    const std::string more = others.size() == 1 ? "" : " and " + std::to_string(others.size() - 1) + " more";
    note(index.string(), "it does not name " + printable(*others.begin(), 200) + more + " beside it, so not read");
  }

  static void check_indexed(const SafetensorsFile& file, const std::string& index,
                            const std::map<std::string, std::string>& shards) {
    const std::string shard = std::filesystem::path(file.path()).filename().string();
    for (const auto& [name, info] : file.tensors()) {
      const auto at = shards.find(name);
      if (at == shards.end())
        throw Error(detail::tensor_subject(file.path(), name), "a tensor that " + index + " lacks",
                    "every tensor in the index");
      if (at->second != shard)
        throw Error(detail::tensor_subject(file.path(), name), "the tensor in " + at->second + " too",
                    "each tensor in one shard");
    }
  }

  void name_tensors(std::string_view prefix) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      for (const auto& [stored, info] : files_[i].tensors()) {
        const bool prefixed = !prefix.empty() && std::string_view(stored).substr(0, prefix.size()) == prefix;
        const std::string name = prefixed ? stored.substr(prefix.size()) : stored;
        if (tensors_.emplace(name, Place{i, stored}).second) continue;
        throw Error(detail::tensor_subject(path_, name), "it with and without '" + std::string(prefix) + "'",
                    "one tensor of this name");
      }
    }
  }

  const Place& place(const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) throw Error(detail::tensor_subject(path_, name), "no such tensor", "one of this name");
    return at->second;
  }

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> tensors_;
  std::vector<std::string> notes_;
};

}  // namespace K3SPEC_NAMESPACE::io
