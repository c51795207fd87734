#pragma once
/// \file
/// The windows of the data that a run's steps and its evaluations take.
/// defines: windows_of, check_windows, steps_of_epochs, TextCutter

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/token_data.hpp>
#include <k3spec/batches/window_sampling.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/run/train_settings.hpp>

namespace K3SPEC_NAMESPACE {

/// How many windows the data has without one of its tokens twice.
inline index_t windows_of(const TokenData& data, const TrainSettings& settings) {
  if (settings.sampling == WindowSampling::packed) return data.packed(settings.length).windows();
  return data.windows(settings.length);
}

/// Throws Error unless there are `count` of them, and something in the data to learn.
inline void check_windows(const TokenData& data, const TrainSettings& settings, index_t count) {
  if (settings.sampling != WindowSampling::packed) return data.check_windows(count, settings.length);
  data.check_supervised();
  if (const index_t found = windows_of(data, settings); found < count) {
    throw Error(data.path(), fmt::format("documents for {} windows of {}", found, settings.length),
                fmt::format("{} windows", count));
  }
}

/// The steps in which a run goes over its data so many times, the last of them whole.
/// \throws Error with random windows, and where these are more steps than a run can have
inline index_t steps_of_epochs(const TokenData& data, const TrainSettings& settings, double epochs) {
  if (settings.sampling == WindowSampling::random) {
    throw Error("epochs", "them with sampling random", "shuffled or packed windows");
  }
  const double windows = static_cast<double>(windows_of(data, settings)) * epochs;
  const double steps = std::ceil(windows / static_cast<double>(settings.windows()));
  if (steps >= 1 && steps <= static_cast<double>(WarmupCosine::max_steps)) return static_cast<index_t>(steps);
  throw Error("epochs", fmt::format("{} of {} windows", epochs, windows_of(data, settings)),
              fmt::format("1 to {} steps of {} windows", WarmupCosine::max_steps, settings.windows()));
}

/// Cuts windows out of the data, and documents out of the windows when they are packed. A result is valid until the
/// next call.
class TextCutter {
 public:
  /// Memory for the windows of a step.
  explicit TextCutter(const TrainSettings& settings)
      : settings_(settings),
        ids_(settings.tokens()),
        loss_mask_(settings.tokens()),
        seq_lens_(settings.packing == Packing::apart ? settings.tokens() : 0) {}

  /// All windows of a step, of all ranks: which they are depends on the settings and the step alone.
  /// \throws Error when the data has no window
  TextWindows of_step(const TokenData& data, index_t step) {
    check_windows(data, settings_, 1);
    const index_t places = data.size() - settings_.length + 1;
    const bool random = settings_.sampling == WindowSampling::random;
    const WindowTurns turns(settings_.seed, random ? places : windows_of(data, settings_));
    return windows(data, settings_.windows(), [&](index_t r) {
      const auto turn = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(settings_.windows()) +
                        static_cast<std::uint64_t>(r);
      if (random) return cut(data, turns.random(turn), r);
      window(data, turns.shuffled(turn), r);
    });
  }

  /// Batch `index` of an evaluation: windows one behind the other.
  /// \throws Error when the data has no such windows
  TextWindows of_evaluation(const TokenData& data, index_t index) {
    const index_t first = index * settings_.batch, last = first + settings_.batch, all = windows_of(data, settings_);
    if (first < 0 || last > all) {
      throw Error(data.path() + ": windows", fmt::format("{} to {}", first, last), fmt::format("within 0 to {}", all));
    }
    return windows(data, settings_.batch, [&](index_t r) { window(data, first + r, r); });
  }
  /// How many of `wanted` such batches the data has.
  index_t evaluations(const TokenData& data, index_t wanted) const {
    return std::min(wanted, windows_of(data, settings_) / settings_.batch);
  }

 private:
  template <class T>
  std::span<T> row(Buffer<T>& of, index_t r) const {
    return {of.data() + r * settings_.length, static_cast<std::size_t>(settings_.length)};
  }

  /// \param fill  (r), which makes row r of all
  template <class F>
  TextWindows windows(const TokenData& data, index_t count, F&& fill) {
    const index_t tokens = count * settings_.length;
    for (index_t r = 0; r < count; ++r) fill(r);
    TextWindows all{Matrix<const index_t>(ids_.data(), count, settings_.length)};
    if (data.has_mask() || settings_.sampling == WindowSampling::packed) {
      all.loss_mask = Vector<const std::uint8_t>(loss_mask_.data(), tokens);
    }
    if (settings_.packing != Packing::apart) return all;
    all.seq_lens = Matrix<const index_t>(seq_lens_.data(), count, settings_.length);
    return all;
  }

  /// Window w of all that the data has.
  void window(const TokenData& data, index_t w, index_t r) {
    if (settings_.sampling == WindowSampling::packed) return pack(data, data.packed(settings_.length).pieces(w), r);
    cut(data, w * settings_.length, r);
  }

  void cut(const TokenData& data, index_t begin, index_t r) {
    data.read(begin, row(ids_, r));
    if (data.has_mask()) data.read_mask(begin, row(loss_mask_, r));
    if (settings_.packing == Packing::apart) data.read_lengths(begin, row(seq_lens_, r));
  }

  /// What the pieces leave of the window is token 0, a document of its own that nobody learns.
  void pack(const TokenData& data, std::span<const PackedWindows::Piece> pieces, index_t r) {
    const auto ids = row(ids_, r), lengths = row(seq_lens_, r);
    const auto mask = row(loss_mask_, r);
    std::fill(ids.begin(), ids.end(), 0), std::fill(lengths.begin(), lengths.end(), 0);
    std::fill(mask.begin(), mask.end(), std::uint8_t{0});
    std::size_t at = 0, document = 0;
    for (const PackedWindows::Piece& piece : pieces) {
      const auto n = static_cast<std::size_t>(piece.length);
      data.read(piece.begin, ids.subspan(at, n)), data.read_mask(piece.begin, mask.subspan(at, n));
      lengths[document++] = piece.length, at += n;
    }
    if (at < ids.size()) lengths[document] = static_cast<index_t>(ids.size() - at);
  }

  TrainSettings settings_;
  Buffer<index_t> ids_;
  Buffer<std::uint8_t> loss_mask_;
  Buffer<index_t> seq_lens_;
};

}  // namespace K3SPEC_NAMESPACE
