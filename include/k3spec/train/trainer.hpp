#pragma once
/// \file
/// Trains an EAGLE-3 draft on the states of a frozen Kimi K3 target. A step is: windows of text through the target, the
/// unrolled objective forward and backward, the gradient clipped, AdamW. Nothing is allocated in it.
/// defines: Eagle3Trainer

#include <filesystem>
#include <utility>
#include <vector>

#include <k3spec/core/device.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/train/checkpoint.hpp>
#include <k3spec/train/checkpoint_directory.hpp>
#include <k3spec/train/metrics.hpp>
#include <k3spec/train/target_features.hpp>
#include <k3spec/train/text.hpp>

namespace k3spec {

template <class Config, Element T>
class Eagle3Trainer {
 public:
  using Draft = Eagle3Draft<Config>;
  using Target = K3Target<Config>;

  struct Report {
    TttResult result;
    double lr, grad_norm;  ///< the norm before clipping
    bool skipped;          ///< the gradient was not finite
  };

  /// A draft with fresh parameters, N(0, 0.02²) from the settings' seed, and the target's embedding.
  /// \throws Error on settings out of range
  Eagle3Trainer(const Cpu& cpu, Parameters<Target, T> target, DraftVocabulary vocabulary,
                std::vector<index_t> aux_layer_ids, const TrainSettings& settings)
      : cpu_(cpu),
        progress_{checked(settings), 0},
        aux_layer_ids_(std::move(aux_layer_ids)),
        features_(std::move(target), std::move(vocabulary), aux_layer_ids_, settings.batch, settings.length),
        objective_(rows(), settings.ttt_steps),
        optimizer_(settings.optimizer, initialized()),
        ids_(rows()) {}

  /// One step on the text's windows that are this step's turn.
  Report step(const ByteText& text) {
    text.random_windows(settings().seed, next_step(), windows());
    return step(windows());
  }

  /// One step on ids [batch, length].
  Report step(const Matrix<const index_t>& ids) {
    gradients_.zero();
    const auto batch = features_.make(cpu_, ids);
    const auto d_w = gradients_.weights();
    const TttResult result = objective_.forward_backward(cpu_, parameters_.weights(), d_w, batch, features_.teacher());
    const double lr = settings().schedule(next_step());
    ++progress_.next_step;
    const auto update = optimizer_.step(cpu_, lr, parameters_, gradients_);
    return {result, lr, update.grad_norm, update.skipped};
  }

  /// Loss and counters on ids [batch, length], with nothing trained.
  TttResult evaluate(const Matrix<const index_t>& ids) {
    const auto batch = features_.make(cpu_, ids);
    return objective_.evaluate_only(cpu_, parameters_.weights(), batch, features_.teacher());
  }

  /// The same summed over the first `batches` batches of a text, windows one behind the other; fewer if it is shorter.
  TttMetrics evaluate(const ByteText& text, index_t batches) {
    TttMetrics sums(settings().ttt_steps);
    const index_t there = text.windows(settings().length) / settings().batch;
    for (index_t i = 0; i < std::min(batches, there); ++i) {
      text.consecutive_windows(i * settings().batch, windows());
      sums += metrics(evaluate(windows()));
    }
    return sums;
  }

  /// A result's sums.
  TttMetrics metrics(const TttResult& result) const {
    TttMetrics sums(settings().ttt_steps);
    for (index_t k = 0; k < sums.ttt_steps(); ++k) {
      const auto n = static_cast<std::size_t>(k);
      sums[k].supervised = result.step_supervised[n];
      sums[k].loss = result.step_losses[n] * static_cast<double>(result.step_supervised[n]);
      sums[k].correct = result.step_correct[n];
      sums[k].prefix_hits = result.step_prefix_hits[n];
      sums[k].chains = result.step_valid[n];
    }
    return sums;
  }

  /// Makes a new checkpoint: the draft and all that is needed to go on.
  void save(CheckpointDirectory& checkpoints) {
    checkpoints.save(next_step(), [&](const std::filesystem::path& directory) {
      save_draft(directory, parameters_, features_.vocabulary(),
                 io::draft_config_json<Draft::kind, Config>(aux_layer_ids_, dtype_of<T>));
      checkpoints.before("trainer");
      save_trainer(directory, optimizer_, progress_);
    });
  }

  /// Goes on from a checkpoint. The settings must be the checkpoint's (read_trainer_progress), and so must target,
  /// vocabulary and layers.
  /// \throws Error when they are others, or the files do not fit
  void resume(const std::filesystem::path& directory) {
    const TrainerProgress saved = read_trainer_progress(directory);
    if (saved.settings.to_json() != settings().to_json()) {
      throw Error((directory / detail::trainer_json_name).string() + ": settings", saved.settings.to_json().dump(),
                  settings().to_json().dump());
    }
    check_config(directory);
    Parameters<Draft, T> loaded;
    const DraftVocabulary vocabulary = load_draft(directory, loaded);
    check_vocabulary(directory, vocabulary);
    load_trainer(directory, optimizer_);
    parameters_ = std::move(loaded);
    progress_ = saved;
  }

  /// Fixes the number of steps of a run whose speed had to be measured first.
  /// \throws Error once the rate of a step made would be another
  void set_total_steps(index_t steps) {
    TrainSettings changed = settings();
    changed.schedule.total_steps = steps;
    changed.check();
    for (index_t i = 0; i < next_step(); ++i) {
      if (changed.schedule(i) == settings().schedule(i)) continue;
      throw Error("total steps", std::to_string(steps) + " set after step " + std::to_string(i), "set during warmup");
    }
    progress_.settings = changed;
  }

  const TrainSettings& settings() const { return progress_.settings; }
  index_t next_step() const { return progress_.next_step; }
  /// Rows, and so tokens, of a step.
  index_t rows() const { return settings().batch * settings().length; }
  const Parameters<Draft, T>& parameters() const { return parameters_; }
  const AdamW<Draft, T>& optimizer() const { return optimizer_; }
  const DraftVocabulary& vocabulary() const { return features_.vocabulary(); }

  /// Bytes of activations, for a batch of these sizes.
  static constexpr std::size_t activation_bytes(index_t batch, index_t length, index_t ttt_steps) {
    return TargetFeatures<Config, T>::bytes(batch, length) + TttObjective<Draft, T>::bytes(batch * length, ttt_steps);
  }

 private:
  static const TrainSettings& checked(const TrainSettings& settings) {
    settings.check();
    return settings;
  }

  const Parameters<Draft, T>& initialized() {
    parameters_.initialize(settings().seed);
    const auto from = features_.embedding();
    std::copy_n(from.data(), from.size(), parameters_.mutable_weights().embed_tokens.data());
    return parameters_;
  }

  Matrix<index_t> windows() { return Matrix<index_t>(ids_.data(), settings().batch, settings().length); }

  void check_config(const std::filesystem::path& directory) const {
    const auto file = directory / draft_config_name;
    const io::json config = io::read_json(file);
    io::check_draft_config<Draft::kind, Config>(config, file.string());
    const auto found = io::draft_layer_ids<Draft::kind, Config>(config, file.string());
    if (found == aux_layer_ids_) return;
    throw Error(file.string() + ": aux_layer_ids", io::json(found).dump(), io::json(aux_layer_ids_).dump());
  }

  void check_vocabulary(const std::filesystem::path& directory, const DraftVocabulary& found) const {
    const auto a = found.target_ids(), b = vocabulary().target_ids();
    if (std::equal(a.data(), a.data() + a.size(), b.data(), b.data() + b.size())) return;
    throw Error(directory.string() + ": d2t", "another vocabulary", "the one the trainer was made with");
  }

  Cpu cpu_;
  TrainerProgress progress_;
  std::vector<index_t> aux_layer_ids_;
  TargetFeatures<Config, T> features_;
  TttObjective<Draft, T> objective_;
  Parameters<Draft, T> parameters_;
  Gradients<Draft, T> gradients_;
  AdamW<Draft, T> optimizer_;
  Buffer<index_t> ids_;
};

}  // namespace k3spec
