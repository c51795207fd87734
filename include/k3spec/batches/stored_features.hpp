#pragma once
/// \file
/// A cache of features, read: what a target said of fixed windows, in the place of the target. A window is known by its
/// tokens, and its documents where these are apart, so that it does not matter in which order windows come.
/// defines: StoredFeatures

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/feature_files.hpp>
#include <k3spec/batches/state_storage.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/safetensors_header.hpp>
#include <k3spec/target/k3_target.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// A safetensors file of a cache, mapped.
class FeatureFile {
 public:
  /// \throws Error for every way a file can be malformed
  explicit FeatureFile(const std::filesystem::path& path)
      : file_(path), header_(io::parse_safetensors_header(file_.path(), file_.bytes())) {}

  const io::MappedFile& file() const { return file_; }
  const io::SafetensorsHeader& header() const { return header_; }

  /// A tensor's first element. \throws Error unless it is there, of this type and shape
  template <class U>
  const U* tensor(const std::string& name, DType type, const std::vector<index_t>& shape) const {
    const auto subject = [&](const char* what) { return io::detail::tensor_subject(file_.path(), name, what); };
    const auto at = header_.tensors.find(name);
    if (at == header_.tensors.end()) throw Error(subject(""), "no such tensor", "one of this name");
    const io::TensorInfo& info = at->second;
    if (info.dtype != type) throw Error(subject("element type"), k3spec::name(info.dtype), k3spec::name(type));
    if (info.shape != shape) throw Error(subject("shape"), io::shape_string(info.shape), io::shape_string(shape));
    const std::byte* data = file_.bytes().data() + header_.data_start + info.begin;
    const auto gap = reinterpret_cast<std::uintptr_t>(data) % alignof(U);
    if (gap != 0) throw Error(subject("place"), fmt::format("{} bytes too far", gap), "one for its elements");
    return reinterpret_cast<const U*>(data);
  }

 private:
  io::MappedFile file_;
  io::SafetensorsHeader header_;
};

/// Stands for a window: other tokens or documents have, as a rule, another one.
/// \param lengths  of documents, with zeros anywhere among them
template <class Id, class Length>
std::uint64_t window_hash(const Id* ids, index_t length, const Length* lengths, index_t documents) {
  std::uint64_t hash = 1;
  for (index_t t = 0; t < length; ++t) hash = mix(hash, static_cast<std::uint64_t>(ids[t]));
  for (index_t d = 0; d < documents; ++d) {
    if (lengths[d] != 0) hash = mix(hash, static_cast<std::uint64_t>(lengths[d]));
  }
  return hash;
}

/// Whether both are the same but for zeros. \param n, m  how many there are
template <class A, class B>
bool same_documents(const A* a, index_t n, const B* b, index_t m) {
  index_t i = 0, j = 0;
  for (;; ++i, ++j) {
    while (i < n && a[i] == 0) ++i;
    while (j < m && b[j] == 0) ++j;
    if (i == n || j == m) return i == n && j == m;
    if (static_cast<index_t>(a[i]) != static_cast<index_t>(b[j])) return false;
  }
}

}  // namespace detail

/// What a target left of windows of text. Copies are of the same cache, which is mapped.
/// \tparam T  of the run, as the tables were written; the states may be narrower
template <ForTarget Given, Element T>
class StoredFeatures {
  using Config = complete_target_t<Given>;
  static constexpr index_t hidden = Config::hidden_size;

 public:
  using Table = View<const T, Config::vocab_size, Config::hidden_size>;
  /// The target's, [vocabulary, hidden] each.
  struct Tables {
    Table embed_tokens, lm_head;
  };

  /// Opens a cache and reads all of it once, for its checksums.
  /// \throws Error naming file and field, when it is not whole, or is not what was written, or is of another target or
  ///         type than Given and T
  template <Device D>
  StoredFeatures(const D& device, const std::filesystem::path& folder)
      : content_(std::make_shared<const Content>(device, folder)) {}

  const FeaturePlan& plan() const { return content_->manifest.plan(); }
  /// features.json, for messages.
  const std::string& file() const { return content_->json; }
  /// Fields of the target's config.json that are not known here.
  const std::vector<std::string>& notes() const { return content_->notes; }
  const Tables& tables() const { return content_->tables; }
  /// Whether the states were rounded when they were written: a run has other bits than one whose target runs.
  bool rounded() const { return content_->storage.narrow(); }

  /// Refuses other states and windows than a draft wants.
  /// \throws Error naming the field in which the cache is another one
  void check(const std::vector<Tap>& taps, index_t length, Packing packing) const {
    plan().check_taps(taps, file());
    plan().check_windows(length, packing, file());
  }

  // ---- Of windows [batch, length]. Each throws Error on other shapes, when the cache does not have one of them, and
  // ---- where a file was cut since it was opened

  /// The states, as TargetStates has them.
  template <Device D, class Windows>
  void read(const D& device, const Windows& windows, const Rows<element_t<D, T>, hidden>& last,
            const Matrix<element_t<D, T>>& tapped) const {
    const index_t length = plan().length, taps = static_cast<index_t>(plan().taps.size());
    require_rows("features: last", last, rows_of(windows));
    require_shape("features: tapped", tapped, rows_of(windows), taps * hidden);
    for (index_t b = 0; b < windows.ids.extent(0); ++b) {
      const Place at = find(windows, b);
      const Shard& shard = shard_at(at);
      const auto send = [&](const States& from, index_t first, element_t<D, T>* to, index_t states) {
        const float* const scales = from.scales == nullptr ? nullptr : from.scales + first;
        const Vector<element_t<D, T>> numbers(to, states * hidden);
        content_->storage.load(device, from.bytes + content_->storage.bytes(first), scales, numbers);
      };
      send(shard.last, at.row, last.row(b * length), length);
      send(shard.tapped, at.row * taps, tapped.row(b * length), length * taps);
    }
  }

  /// The target's choice of the token behind each.
  template <class Windows>
  void read_top(const Windows& windows, const Vector<index_t>& top) const {
    const index_t length = plan().length;
    require_rows("features: top", top, rows_of(windows));
    for (index_t b = 0; b < windows.ids.extent(0); ++b) {
      const Place at = find(windows, b);
      std::copy_n(shard_at(at).top + at.row, length, top.data() + b * length);
    }
  }

 private:
  /// As the storage has them. scales: none where there are none
  struct States {
    const std::byte* bytes;
    const float* scales;
  };
  struct Shard {
    detail::FeatureFile file;
    const std::int32_t *ids, *seq_lens, *top;  // seq_lens: none where windows are one document
    States tapped, last;

    Shard(const std::filesystem::path& path, const FeaturePlan& plan, index_t windows) : file(path) {
      const index_t rows = windows * plan.length, taps = static_cast<index_t>(plan.taps.size());
      ids = file.tensor<std::int32_t>("ids", DType::I32, {windows, plan.length});
      const bool apart = plan.packing == Packing::apart;
      seq_lens = apart ? file.tensor<std::int32_t>("seq_lens", DType::I32, {windows, plan.length}) : nullptr;
      tapped = {states("tapped", plan.dtype, {rows, taps * hidden}), nullptr};
      last = {states("last", plan.dtype, {rows, hidden}), nullptr};
      if (plan.has_scales()) {
        tapped.scales = file.tensor<float>("tapped_scale", DType::F32, {rows, taps});
        last.scales = file.tensor<float>("last_scale", DType::F32, {rows});
      }
      top = file.tensor<std::int32_t>("top", DType::I32, {rows});
    }
    const std::byte* states(const char* name, DType type, const std::vector<index_t>& shape) const {
      if (type == dtype_of<T>) return reinterpret_cast<const std::byte*>(file.tensor<T>(name, type, shape));
      if (type == DType::BF16) return reinterpret_cast<const std::byte*>(file.tensor<bfloat16>(name, type, shape));
      return reinterpret_cast<const std::byte*>(file.tensor<float8_e4m3fn>(name, type, shape));
    }
  };

  /// A window's first row.
  struct Place {
    index_t shard, row;
  };

  struct Content {
    std::string json;
    FeatureManifest manifest;
    StateStorage<T> storage;
    std::vector<std::string> notes;
    std::optional<detail::FeatureFile> of_tables;
    Tables tables;
    std::vector<std::unique_ptr<const Shard>> shards;
    std::vector<std::pair<std::uint64_t, Place>> index;  // of all windows, by their hash

    template <Device D>
    Content(const D& device, const std::filesystem::path& folder)
        : json((folder / FeatureFiles::json).string()),
          manifest(FeatureManifest::read(folder)),
          storage(manifest.plan().dtype, hidden) {
      const FeaturePlan& plan = manifest.plan();
      notes = io::check_target_config<Config>(plan.target, json + ": target");
      plan.check_dtype(dtype_of<T>, json);
      manifest.require_whole(folder);
      for (const FeatureManifest::File& file : manifest.files()) check_file(device, folder / file.name, file);
      open_tables(folder);
      for (index_t i = 0; i < plan.shards(); ++i) add_shard(folder / FeatureFiles::shard(i), i);
      std::stable_sort(index.begin(), index.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    }

    template <Device D>
    static void check_file(const D& device, const std::filesystem::path& path, const FeatureManifest::File& wanted) {
      const io::MappedFile file(path);
      if (file.size() != wanted.bytes) {
        throw Error(path.string(), fmt::format("{} bytes", file.size()), fmt::format("{}", wanted.bytes));
      }
      const Fingerprint found = bytes_fingerprint(device, file.bytes());
      if (found == wanted.checksum) return;
      throw Error(path.string() + ": checksum", found.text(), wanted.checksum.text() + ", as it was written");
    }

    void open_tables(const std::filesystem::path& folder) {
      of_tables.emplace(folder / FeatureFiles::tables);
      const std::vector<index_t> shape{Config::vocab_size, Config::hidden_size};
      tables = {Table(of_tables->template tensor<T>("embed_tokens", dtype_of<T>, shape)),
                Table(of_tables->template tensor<T>("lm_head", dtype_of<T>, shape))};
    }

    void add_shard(const std::filesystem::path& path, index_t i) {
      const FeaturePlan& plan = manifest.plan();
      const index_t windows = plan.count_of(i), length = plan.length;
      const Shard& shard = *shards.emplace_back(std::make_unique<const Shard>(path, plan, windows));
      for (index_t w = 0; w < windows; ++w) {
        const index_t row = w * length, documents = shard.seq_lens == nullptr ? 0 : length;
        const auto* const lengths = shard.seq_lens == nullptr ? nullptr : shard.seq_lens + row;
        index.emplace_back(detail::window_hash(shard.ids + row, length, lengths, documents), Place{i, row});
      }
    }
  };

  const Shard& shard_at(const Place& at) const { return *content_->shards[static_cast<std::size_t>(at.shard)]; }

  template <class Windows>
  index_t rows_of(const Windows& windows) const {
    require_count("features: windows", windows.ids.extent(1), plan().length, " tokens");
    return windows.ids.extent(0) * plan().length;
  }

  template <class Windows>
  Place find(const Windows& windows, index_t b) const {
    const index_t length = plan().length, documents = windows.seq_lens.extent(1);
    const index_t* const ids = windows.ids.row(b);
    const bool packed = windows.seq_lens.extent(0) > 0;
    const index_t* const lengths = packed ? windows.seq_lens.row(b) : nullptr;
    const std::uint64_t hash = detail::window_hash(ids, length, lengths, packed ? documents : 0);
    auto at = std::lower_bound(content_->index.begin(), content_->index.end(), hash,
                               [](const auto& entry, std::uint64_t wanted) { return entry.first < wanted; });
    for (; at != content_->index.end() && at->first == hash; ++at) {
      const Shard& shard = shard_at(at->second);
      shard.file.file().require_whole();
      const index_t row = at->second.row;
      if (!std::equal(ids, ids + length, shard.ids + row)) continue;
      const bool stored = shard.seq_lens != nullptr;
      if (stored != packed) continue;
      if (packed && !detail::same_documents(lengths, documents, shard.seq_lens + row, length)) continue;
      return at->second;
    }
    throw Error(file(), fmt::format("no states of the window at row {}", b),
                "those of all windows that are trained on");
  }

  std::shared_ptr<const Content> content_;
};

}  // namespace K3SPEC_NAMESPACE
