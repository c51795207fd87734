#pragma once
/// \file
/// Trains a draft on the states of a frozen Kimi K3 target. A step is: windows of text through the target, the draft's
/// objective forward and backward, the gradient clipped, AdamW. Nothing is allocated in it.
///
/// What differs between drafts is a Method, which owns the target and the objective. It has the types value_type,
/// Draft, Target, Result, Metrics, Conventions and Setup, and
///
///     Method(target parameters, setup, settings)
///     initialize(parameters)                 what fresh parameters take from the target
///     forward_backward(cpu, weights, gradients, windows, step)
///                                            a Result; throws NothingSupervised if nothing can be learnt
///     evaluate(cpu, weights, windows, index) a Result; the same choices for the same index
///     metrics(result), metrics()             a result's sums, or none
///     vocabulary(), layer_ids(), conventions(), bytes(settings)
///
/// Metrics has +=, loss(), accuracy(), simulated_accept_length(), and visit(v), which calls v(name, value) for what
/// else there is.
/// defines: Trainer

#include <filesystem>
#include <utility>
#include <vector>

#include <k3spec/core/device.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/train/checkpoint.hpp>
#include <k3spec/train/checkpoint_directory.hpp>
#include <k3spec/train/nothing_supervised.hpp>
#include <k3spec/train/target_states.hpp>
#include <k3spec/train/text.hpp>

namespace k3spec {

template <class Method>
class Trainer {
 public:
  using T = typename Method::value_type;
  using Draft = typename Method::Draft;
  using Target = typename Method::Target;
  using Config = typename Draft::config;
  using Result = typename Method::Result;
  using Metrics = typename Method::Metrics;
  using Setup = typename Method::Setup;

  struct Report {
    Result result;
    double lr = 0, grad_norm = 0;  ///< the norm before clipping
    bool skipped = false;          ///< the gradient was not finite, or nothing was supervised
  };

  /// A draft with fresh parameters, N(0, 0.02²) from the settings' seed, and what it takes from the target.
  /// \throws Error on settings out of range, and conventions that such a draft cannot have
  Trainer(const Cpu& cpu, Parameters<Target, T> target, Setup setup, const TrainSettings& settings)
      : cpu_(cpu),
        progress_{checked(settings), 0},
        method_(std::move(target), std::move(setup), settings),
        optimizer_(settings.optimizer, initialized()),
        ids_(settings.rows()),
        seq_lens_(settings.packing == Packing::apart ? settings.rows() : 0) {
    config_json();  // a run that could not be saved does not begin
  }

  /// One step on the text's windows that are this step's turn.
  Report step(const ByteText& text) {
    text.random_windows(settings().seed, next_step(), windows());
    return step(text_windows());
  }

  /// One step on other windows.
  Report step(const TextWindows& windows) {
    gradients_.zero();
    Report report;
    report.lr = settings().schedule(next_step());
    const index_t turn = progress_.next_step++;
    try {
      report.result = method_.forward_backward(cpu_, parameters_.weights(), gradients_.weights(), windows, turn);
    } catch (const NothingSupervised&) {
      ++progress_.unsupervised;
      return {.result = {}, .lr = report.lr, .skipped = true};
    }
    const auto update = optimizer_.step(cpu_, report.lr, parameters_, gradients_);
    report.grad_norm = update.grad_norm;
    report.skipped = update.skipped;
    return report;
  }

  /// Loss and counters with nothing trained. \param index  which batch of a series it is
  Result evaluate(const TextWindows& windows, index_t index = 0) {
    try {
      return method_.evaluate(cpu_, parameters_.weights(), windows, index);
    } catch (const NothingSupervised&) {
      return {};
    }
  }

  /// The same summed over the first `batches` batches of a text, windows one behind the other; fewer if it is shorter.
  Metrics evaluate(const ByteText& text, index_t batches) {
    Metrics sums = method_.metrics();
    const index_t there = text.windows(settings().length) / settings().batch;
    for (index_t i = 0; i < std::min(batches, there); ++i) {
      text.consecutive_windows(i * settings().batch, windows());
      sums += metrics(evaluate(text_windows(), i));
    }
    return sums;
  }

  /// A result's sums.
  Metrics metrics(const Result& result) const { return method_.metrics(result); }

  /// Makes a new checkpoint: the draft and all that is needed to go on.
  void save(CheckpointDirectory& checkpoints) {
    checkpoints.save(next_step(), [&](const std::filesystem::path& directory) {
      save_draft(directory, parameters_, method_.vocabulary(), config_json());
      checkpoints.before("trainer");
      save_trainer(directory, optimizer_, progress_);
    });
  }

  /// Goes on from a checkpoint. The settings must be the checkpoint's (read_trainer_progress), and so must target,
  /// vocabulary, layers and conventions.
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
  /// Steps that found nothing to supervise and changed nothing.
  index_t unsupervised() const { return progress_.unsupervised; }
  /// Rows, and so tokens, of a step.
  index_t rows() const { return settings().rows(); }
  const Parameters<Draft, T>& parameters() const { return parameters_; }
  const AdamW<Draft, T>& optimizer() const { return optimizer_; }
  const DraftVocabulary& vocabulary() const { return method_.vocabulary(); }

  /// Bytes of activations.
  static constexpr std::size_t activation_bytes(const TrainSettings& settings) { return Method::bytes(settings); }

 private:
  static const TrainSettings& checked(const TrainSettings& settings) {
    settings.check();
    return settings;
  }

  const Parameters<Draft, T>& initialized() {
    parameters_.initialize(settings().seed);
    method_.initialize(parameters_);
    return parameters_;
  }

  Matrix<index_t> windows() { return Matrix<index_t>(ids_.data(), settings().batch, settings().length); }

  /// What stands in windows(), cut into documents when they are packed.
  TextWindows text_windows() {
    TextWindows all{windows()};
    if (settings().packing != Packing::apart) return all;
    const Matrix<index_t> seq_lens(seq_lens_.data(), settings().batch, settings().length);
    cut_documents(all.ids, '\n', seq_lens);
    all.seq_lens = seq_lens;
    return all;
  }

  io::json config_json() const {
    return io::draft_config_json<Draft::kind, Config>(method_.layer_ids(), dtype_of<T>, method_.conventions());
  }

  void check_conventions(const typename Method::Conventions& found, const std::string& file) const {
    io::json wanted;
    Method::Conventions::visit(method_.conventions(),
                               [&](const char* name, auto value) { wanted[name] = io::detail::value_name(value); });
    Method::Conventions::visit(found, [&](const char* name, auto value) {
      const io::json there = io::detail::value_name(value);
      if (there != wanted[name]) throw Error(file + ": " + name, there.dump(), wanted[name].dump());
    });
  }

  void check_config(const std::filesystem::path& directory) const {
    const auto file = directory / draft_config_name;
    const io::json config = io::read_json(file);
    io::check_draft_config<Draft::kind, Config>(config, file.string());
    check_conventions(io::draft_conventions<Draft::kind>(config, file.string()), file.string());
    const auto found = io::draft_layer_ids<Draft::kind, Config>(config, file.string());
    if (found == method_.layer_ids()) return;
    throw Error(file.string() + ": " + DraftForm<Draft::kind>::layers_field, io::json(found).dump(),
                io::json(method_.layer_ids()).dump());
  }

  void check_vocabulary(const std::filesystem::path& directory, const DraftVocabulary& found) const {
    const auto a = found.target_ids(), b = vocabulary().target_ids();
    if (std::equal(a.data(), a.data() + a.size(), b.data(), b.data() + b.size())) return;
    throw Error(directory.string() + ": d2t", "another vocabulary", "the one the trainer was made with");
  }

  Cpu cpu_;
  TrainerProgress progress_;
  Method method_;
  Parameters<Draft, T> parameters_;
  Gradients<Draft, T> gradients_;
  AdamW<Draft, T> optimizer_;
  Buffer<index_t> ids_, seq_lens_;
};

}  // namespace k3spec
