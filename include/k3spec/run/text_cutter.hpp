#pragma once
/// \file
/// The windows of a text that a run's steps and its evaluations take.
/// defines: TextCutter

#include <algorithm>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/text.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/run/train_settings.hpp>

namespace K3SPEC_NAMESPACE {

/// Cuts windows out of a text, and documents out of the windows when they are packed. A result is valid until the next
/// call.
class TextCutter {
 public:
  /// Memory for the windows of a step.
  explicit TextCutter(const TrainSettings& settings)
      : settings_(settings),
        ids_(settings.tokens()),
        seq_lens_(settings.packing == Packing::apart ? settings.tokens() : 0) {}

  /// All windows of a step, of all ranks: which they are depends on seed and step alone.
  TextWindows of_step(const ByteText& text, index_t step) {
    const auto ids = windows(settings_.windows());
    text.random_windows(settings_.seed, step, ids);
    return with_documents(ids);
  }

  /// Batch `index` of an evaluation: windows one behind the other.
  TextWindows of_evaluation(const ByteText& text, index_t index) {
    const auto ids = windows(settings_.batch);
    text.consecutive_windows(index * settings_.batch, ids);
    return with_documents(ids);
  }
  /// How many of `wanted` such batches the text has.
  index_t evaluations(const ByteText& text, index_t wanted) const {
    return std::min(wanted, text.windows(settings_.length) / settings_.batch);
  }

 private:
  Matrix<index_t> windows(index_t count) { return Matrix<index_t>(ids_.data(), count, settings_.length); }

  TextWindows with_documents(const Matrix<index_t>& ids) {
    TextWindows all{ids};
    if (settings_.packing != Packing::apart) return all;
    const Matrix<index_t> seq_lens(seq_lens_.data(), ids.extent(0), ids.extent(1));
    cut_documents(all.ids, '\n', seq_lens);
    all.seq_lens = seq_lens;
    return all;
  }

  TrainSettings settings_;
  Buffer<index_t> ids_, seq_lens_;
};

}  // namespace K3SPEC_NAMESPACE
