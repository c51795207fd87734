#pragma once
/// \file
/// Makes a cache of features (batches/feature_files.hpp): a target runs over the windows that training and evaluation
/// go over, and what it says of them is written, a shard at a time. A capture that was ended at any point, however,
/// goes on with the shards that are there, and comes to the bytes of one that was not.
/// defines: FeatureCapture

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/batches/feature_files.hpp>
#include <k3spec/batches/stored_features.hpp>
#include <k3spec/batches/target_choices.hpp>
#include <k3spec/batches/target_states.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/io/run_lock.hpp>
#include <k3spec/io/safetensors_writer.hpp>
#include <k3spec/run/capture_folder.hpp>
#include <k3spec/run/text_cutter.hpp>

namespace K3SPEC_NAMESPACE {

/// A capture at work.
template <ForTarget Given, Element T, Device D = Cpu>
class FeatureCapture {
  static_assert(shares_memory<D>, "FeatureCapture: a device without the host's memory");
  using Config = complete_target_t<Given>;
  static constexpr index_t hidden = Config::hidden_size, chunk = chunk_rows(Config::vocab_size);

 public:
  /// Takes the folder, and memory for a shard.
  /// \param batch  windows that go through the target together: no result depends on it
  /// \throws Error as CaptureFolder::check, when another process is at work in the folder, and on states that are to
  ///         be neither T nor a narrower type
  FeatureCapture(const D& device, CaptureFolder folder, FeaturePlan plan, index_t batch)
      : device_(device),
        folder_(std::move(folder)),
        plan_(std::move(plan)),
        storage_(plan_.dtype, hidden),
        settings_(settings(plan_)),
        cutter_(settings_),
        batch_(batch),
        lock_((check(), folder_.lock()), folder_.path()) {
    const std::string text = plan_.to_json().dump();
    id_ = Fingerprint{detail::hash_bytes(std::as_bytes(std::span(text.data(), text.size())))}.text();
    const index_t rows = plan_.shard_windows * plan_.length;
    for (auto* column : {&ids_, &top_, &seq_lens_}) column->resize(static_cast<std::size_t>(rows));
    last_.resize(storage_.bytes(rows)), tapped_.resize(storage_.bytes(rows * taps()));
    if (plan_.has_scales()) {
      last_scales_.resize(static_cast<std::size_t>(rows)),
          tapped_scales_.resize(static_cast<std::size_t>(rows * taps()));
    }
    logits_.resize(static_cast<std::size_t>(std::min(chunk, batch * plan_.length) * Config::vocab_size));
  }

  /// What is a window of a run, as far as that is the plan's.
  static TrainSettings settings(const FeaturePlan& plan) {
    TrainSettings s;
    s.batch = 1, s.length = plan.length, s.packing = plan.packing, s.sampling = plan.sampling;
    return s;
  }

  /// Makes all files that are not there yet.
  /// \param states   of batches of windows that are `batch`, with the plan's taps
  /// \param goes_on  (shards that are there, of them kept): false ends it here, to go on later
  /// \returns whether the cache is whole
  /// \throws Error naming window and token when the target's states are not finite
  template <class F>
  bool run(TargetStates<Given, T, D>& states, const TokenData& training, const TokenData& held_out, F&& goes_on) {
    folder_.remove_unfinished();
    if (!folder_.found()) FeatureManifest(plan_).write(folder_.path());
    write_tokens(FeatureFiles::training, training), write_tokens(FeatureFiles::held_out, held_out);
    const auto tables = states.tables();
    write(FeatureFiles::tables,
          {io::source("embed_tokens", tables.embed_tokens), io::source("lm_head", tables.lm_head)});
    index_t kept = 0;
    for (index_t s = 0; s < plan_.shards(); ++s) {
      if (is_there(FeatureFiles::shard(s))) {
        ++kept;
      } else {
        capture(states, training, held_out, s);
      }
      if (!goes_on(s + 1, kept) && s + 1 < plan_.shards()) return false;
    }
    // Each file was hashed when it was written, by its tensors: so a capture that was killed knows it again. This is
    // another hash, of what lies on the disk, header and all, which whoever trains from the cache compares.
    FeatureManifest::of(device_, folder_.path(), plan_).write(folder_.path());
    return true;
  }

  /// Bytes that it holds beside the states.
  /// \param tokens  of the longer data: all of them are held while they are written, as they are read, too
  static std::uint64_t bytes(const FeaturePlan& plan, index_t batch, index_t tokens) {
    const auto rows = static_cast<std::uint64_t>(plan.shard_windows) * static_cast<std::uint64_t>(plan.length);
    const auto logits = static_cast<std::uint64_t>(std::min(chunk, batch * plan.length) * Config::vocab_size);
    constexpr std::uint64_t per_token = sizeof(index_t) + sizeof(std::int32_t) + sizeof(std::uint8_t);
    return rows * plan.bytes_per_token(hidden) + logits * sizeof(accumulate_t<T>) +
           per_token * static_cast<std::uint64_t>(tokens);
  }

 private:
  void check() const {
    folder_.check(plan_);
    plan_.check_dtype(dtype_of<T>, (folder_.path() / FeatureFiles::json).string());
  }
  index_t taps() const { return static_cast<index_t>(plan_.taps.size()); }

  /// Of tensors in the order of their names.
  Fingerprint checksum(const std::vector<io::TensorSource>& tensors) const {
    Fingerprint all;
    for (const io::TensorSource& t : tensors) {
      const std::span bytes(static_cast<const std::byte*>(t.data), *io::byte_count(t.dtype, t.shape));
      all.bits = detail::mix(all.bits, bytes_fingerprint(device_, bytes).bits);
    }
    return all;
  }

  /// \param tensors  in the order of their names
  void write(const std::string& name, const std::vector<io::TensorSource>& tensors) {
    if (is_there(name)) return;
    io::write_safetensors(folder_.path() / name, tensors, {{"capture", id_}, {"checksum", checksum(tensors).text()}});
  }

  /// Whether a file is this capture's, as it was written. One that is not is written anew.
  bool is_there(const std::string& name) const {
    try {
      const detail::FeatureFile file(folder_.path() / name);
      const auto& header = file.header();
      const auto says = [&](const char* key) {
        const auto at = header.metadata.find(key);
        return at == header.metadata.end() ? std::string() : at->second;
      };
      std::vector<io::TensorSource> tensors;
      for (const auto& [tensor, info] : header.tensors) {
        tensors.push_back(
            {tensor, info.dtype, info.shape, file.file().bytes().data() + header.data_start + info.begin});
      }
      return says("capture") == id_ && says("checksum") == checksum(tensors).text();
    } catch (const Error&) {
      return false;
    }
  }

  void write_tokens(const std::string& name, const TokenData& data) {
    const auto count = static_cast<std::size_t>(data.size());
    std::vector<index_t> piece(count);
    data.read(0, piece);
    const std::vector<std::int32_t> ids(piece.begin(), piece.end());
    piece.clear();
    for (index_t begin = 0; const index_t end : data.document_ends()) piece.push_back(end - std::exchange(begin, end));
    std::vector<std::uint8_t> mask(data.has_mask() ? count : 0);
    if (data.has_mask()) data.read_mask(0, mask);
    std::vector<io::TensorSource> tensors{{"input_ids", DType::I32, {data.size()}, ids.data()}};
    if (data.has_mask()) tensors.push_back({"loss_mask", DType::U8, {data.size()}, mask.data()});
    tensors.push_back({"seq_lens", DType::I64, {static_cast<index_t>(piece.size())}, piece.data()});
    write(name, tensors);
  }

  void capture(TargetStates<Given, T, D>& states, const TokenData& training, const TokenData& held_out, index_t shard) {
    const index_t windows = plan_.count_of(shard), length = plan_.length, rows = windows * length;
    for (index_t w = 0; w < windows; w += batch_) {
      run_batch(states, training, held_out, plan_.first_of(shard) + w, std::min(batch_, windows - w), w * length);
    }
    std::vector<io::TensorSource> tensors{{"ids", DType::I32, {windows, length}, ids_.data()},
                                          {"last", plan_.dtype, {rows, hidden}, last_.data()}};
    const bool scales = plan_.has_scales();
    if (scales) tensors.push_back({"last_scale", DType::F32, {rows}, last_scales_.data()});
    if (plan_.packing == Packing::apart)
      tensors.push_back({"seq_lens", DType::I32, {windows, length}, seq_lens_.data()});
    tensors.push_back({"tapped", plan_.dtype, {rows, taps() * hidden}, tapped_.data()});
    if (scales) tensors.push_back({"tapped_scale", DType::F32, {rows, taps()}, tapped_scales_.data()});
    tensors.push_back({"top", DType::I32, {rows}, top_.data()});
    write(FeatureFiles::shard(shard), tensors);
  }

  /// Windows [first, first + n) of all; where these are fewer than a batch, the last of them again and again.
  /// \param row  of the shard, where they begin
  void run_batch(TargetStates<Given, T, D>& states, const TokenData& training, const TokenData& held_out, index_t first,
                 index_t n, index_t row) {
    const index_t length = plan_.length, tokens = batch_ * length;
    const bool apart = plan_.packing == Packing::apart;
    std::vector<index_t> ids(static_cast<std::size_t>(tokens)), lengths(apart ? ids.size() : 0);
    for (index_t b = 0; b < batch_; ++b) {
      const index_t w = first + std::min(b, n - 1), held = w - plan_.training_windows;
      const TextWindows one = held < 0 ? cutter_.of_evaluation(training, w) : cutter_.of_evaluation(held_out, held);
      std::copy_n(one.ids.data(), length, ids.data() + b * length);
      if (apart) std::copy_n(one.seq_lens.data(), length, lengths.data() + b * length);
    }
    TextWindows windows{Matrix<const index_t>(ids.data(), batch_, length)};
    if (apart) windows.seq_lens = Matrix<const index_t>(lengths.data(), batch_, length);
    states.run(device_, windows);
    const index_t rows = n * length;
    std::copy_n(ids.data(), rows, ids_.data() + row);
    if (apart) std::copy_n(lengths.data(), rows, seq_lens_.data() + row);
    keep("last", states.last().data(), 1, first, rows, row, last_, last_scales_);
    keep("tapped", states.tapped().data(), taps(), first, rows, row, tapped_, tapped_scales_);
    choose(states, rows, row);
  }

  /// \param from  rows of `each` states, which come to stand at a row of the shard
  void keep(const char* name, const T* from, index_t each, index_t first, index_t rows, index_t row,
            std::vector<std::byte>& to, std::vector<float>& scales) {
    const index_t at = first_not_finite(from, rows * each * hidden);
    if (at < rows * each * hidden) {
      const index_t token = at / (each * hidden);
      throw Error(fmt::format("{}: '{}': window {}, token {}", folder_.path().string(), name,
                              first + token / plan_.length, token % plan_.length),
                  number_text(static_cast<double>(from[at])), "a finite number");
    }
    float* const scale = scales.empty() ? nullptr : scales.data() + row * each;
    storage_.store(from, rows * each, to.data() + storage_.bytes(row * each), scale);
  }

  /// The target's argmax over its whole vocabulary.
  void choose(TargetStates<Given, T, D>& states, index_t rows, index_t row) {
    std::vector<index_t> top(static_cast<std::size_t>(rows));
    const Rows<accumulate_t<T>, Config::vocab_size> logits(logits_.data(), std::min(chunk, rows));
    target_choices(device_, states.target(), states.last().rows(0, rows), logits, Vector<index_t>(top.data(), rows));
    std::copy_n(top.data(), rows, top_.data() + row);
  }

  D device_;
  CaptureFolder folder_;
  FeaturePlan plan_;
  StateStorage<T> storage_;
  TrainSettings settings_;
  TextCutter cutter_;
  index_t batch_;
  RunLock lock_;
  std::string id_;  // of the plan: what its files carry
  std::vector<std::int32_t> ids_, top_, seq_lens_;
  std::vector<std::byte> tapped_, last_;
  std::vector<float> tapped_scales_, last_scales_;
  std::vector<accumulate_t<T>> logits_;
};

}  // namespace K3SPEC_NAMESPACE
