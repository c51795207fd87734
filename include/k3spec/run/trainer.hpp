#pragma once
/// \file
/// Trains a draft on the states of a frozen Kimi K3 target. A step is: windows of text through the target, the draft's
/// objective forward and backward, the gradient clipped, AdamW. Nothing is allocated in it. A step of several batches
/// has the gradient, the losses and the draws of one large batch: denominators are counted over all of them first.
///
/// What differs between drafts is a Method, which owns the target and the objective. It has the types value_type,
/// Draft, Target, Metrics, Totals, Conventions and Setup, and
/// ```text
/// check(setup, settings), vocabulary(setup)
///                                        static: what it refuses of both; the vocabulary the setup has
/// Method(target parameters, setup, settings)
///                                        of what check lets through
/// initialize(parameters)                 what fresh parameters take from the target
/// count(cpu, weights, windows, MicroBatch)
///                                        Totals: what the batch adds to the step's denominators
/// forward_backward(cpu, weights, gradients, windows, MicroBatch, totals)
///                                        Metrics. Totals are of all the step's batches, each counted before; none:
///                                        there is one batch, not counted
/// evaluate(cpu, weights, windows, index) Metrics; the same choices for the same index
/// metrics()                              those of nothing
/// vocabulary(), layer_ids(), conventions(), bytes(settings)
/// ```
/// Metrics has +=, loss(), supervised(), accuracy(), simulated_accept_length(), and visit(v), which calls v(name,
/// value) for what else there is; Totals has +=.
/// defines: Trainer

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/text.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/run/check_checkpoint.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// Trains the draft of a Method, whose form is described above.
template <class Method>
class Trainer {
 public:
  using T = typename Method::value_type;
  using Draft = typename Method::Draft;
  using Target = typename Method::Target;
  using Config = typename Draft::config;
  using Metrics = typename Method::Metrics;
  using Setup = typename Method::Setup;

  /// What a step did.
  struct Report {
    Metrics metrics;
    double lr = 0, grad_norm = 0;  ///< the norm before clipping
    bool skipped = false;          ///< the gradient was not finite, or nothing was supervised
  };

  /// Whether there can be such a run, before a target is loaded for it.
  /// \throws Error naming the setting or the part of the setup that is out of range, does not fit draft and target, or
  ///         means nothing to this kind of draft
  static void check(const Setup& setup, const TrainSettings& settings) {
    settings.check();
    Method::check(setup, settings);
    // A run that could not be saved does not begin.
    io::draft_config_json<Draft::kind, Config>(setup.layer_ids, dtype_of<T>, setup.conventions);
  }

  /// Whether a run of this setup and these settings can go on from a checkpoint, as far as that shows before a target
  /// is loaded.
  /// \param data   the run's texts, as set_data has them; the checkpoint's may be others only if `other` takes them
  /// \returns where the checkpoint stands
  /// \throws Error as check_checkpoint does
  static TrainerProgress check_resume(const std::filesystem::path& directory, const Setup& setup,
                                      const TrainSettings& settings, const std::optional<DataFingerprints>& data = {},
                                      OtherData other = OtherData::refuse) {
    return check_checkpoint<Draft>(directory, settings, setup.layer_ids, setup.conventions, Method::vocabulary(setup),
                                   data, other);
  }

  /// A draft with fresh parameters, N(0, 0.02²) from the settings' seed, and what it takes from the target.
  /// \throws Error as check does, and on a target with a number that is not finite
  Trainer(const Cpu& cpu, Parameters<Target, T> target, Setup setup, const TrainSettings& settings)
      : cpu_(cpu),
        progress_{checked(setup, settings), 0, 0, sources(cpu, target)},
        method_(std::move(target), std::move(setup), settings),
        optimizer_(settings.optimizer, initialized()),
        ids_(settings.tokens()),
        seq_lens_(settings.packing == Packing::apart ? settings.tokens() : 0) {}

  /// Says which texts the run learns from and is measured on, for its checkpoints. Without it they say that the caller
  /// made the windows.
  void set_data(const DataFingerprints& data) { progress_.sources.data = data; }

  /// Begins a new run with the parameters of a draft instead of fresh ones.
  /// \throws Error when a step is made already, or a parameter is not finite
  void start_from(Parameters<Draft, T> parameters) {
    if (next_step() > 0) throw Error("step", std::to_string(next_step()), "0, where a run can start from a draft");
    require_finite<Draft>(parameters.weights(), "draft");
    parameters_ = std::move(parameters);
    optimizer_ = AdamW<Draft, T>(cpu_, settings().optimizer, parameters_);  // masters are the parameters
  }

  /// One step on the text's windows that are this step's turn.
  Report step(const ByteText& text) {
    const auto ids = windows(settings().windows());
    text.random_windows(settings().seed, next_step(), ids);
    return step(text_windows(ids));
  }

  /// One step on other windows, as many as all its batches have.
  /// \throws Error with nothing trained, and the step still to be made
  Report step(const TextWindows& windows) {
    windows.check(settings().windows(), settings().length, settings().packing);
    gradients_.zero();
    Report report{method_.metrics()};
    report.lr = settings().schedule(next_step());
    if (learn(windows, report.metrics)) {
      const auto update = optimizer_.step(cpu_, report.lr, parameters_, gradients_);
      report.grad_norm = update.grad_norm;
      report.skipped = update.skipped;
    } else {
      ++progress_.unsupervised;
      report.skipped = true;
    }
    ++progress_.next_step;
    return report;
  }

  /// Loss and counters of one batch with nothing trained. \param index  which batch of a series it is
  Metrics evaluate(const TextWindows& windows, index_t index = 0) {
    return method_.evaluate(cpu_, parameters_.weights(), windows, index);
  }

  /// The same summed over the first `batches` batches of a text, windows one behind the other; fewer if it is shorter.
  Metrics evaluate(const ByteText& text, index_t batches) {
    Metrics sums = method_.metrics();
    const index_t there = text.windows(settings().length) / settings().batch;
    for (index_t i = 0; i < std::min(batches, there); ++i) {
      const auto ids = windows(settings().batch);
      text.consecutive_windows(i * settings().batch, ids);
      sums += evaluate(text_windows(ids), i);
    }
    return sums;
  }

  /// Makes a new checkpoint: the draft and all that is needed to go on.
  /// \throws Error, with nothing saved, when a parameter or a moment is not finite
  void save(CheckpointDirectory& checkpoints) {
    require_finite<Draft>(parameters_.weights(), "draft");
    detail::for_optimizer_state(optimizer_, [](const char* part, auto views) { require_finite<Draft>(views, part); });
    checkpoints.save(next_step(), [&](const std::filesystem::path& directory) {
      save_draft(directory, parameters_, method_.vocabulary(), config_json(), step_metadata(next_step()));
      checkpoints.before("trainer");
      save_trainer(directory, optimizer_, progress_);
    });
  }

  /// Goes on from a checkpoint. The settings must be the checkpoint's, and so must target, vocabulary, layers and
  /// conventions, and the texts unless `other` takes others.
  /// \throws Error when they are others (check_checkpoint), the files do not fit, or a number in them is not finite
  void resume(const std::filesystem::path& directory, OtherData other = OtherData::refuse) {
    const RunSources own = progress_.sources;
    TrainerProgress saved = check_checkpoint<Draft>(directory, settings(), method_.layer_ids(), method_.conventions(),
                                                    method_.vocabulary(), own.data, other);
    saved.sources.check_target(own.target, (directory / detail::trainer_json_name).string());
    Parameters<Draft, T> loaded;
    load_draft(directory, loaded);
    require_finite<Draft>(loaded.weights(), (directory / io::Checkpoint::single_name).string());
    load_trainer(directory, optimizer_);
    parameters_ = std::move(loaded);
    saved.sources = own;
    progress_ = saved;
  }

  // ---- See TrainerProgress, which says when each is refused

  void set_total_steps(index_t steps) { progress_.set_total_steps(steps); }
  void change_total_steps(index_t steps) { progress_.change_total_steps(steps); }

  const TrainSettings& settings() const { return progress_.settings; }
  index_t next_step() const { return progress_.next_step; }
  /// Steps that found nothing to supervise and changed nothing.
  index_t unsupervised() const { return progress_.unsupervised; }
  /// Rows, and so tokens, of a step.
  index_t rows() const { return settings().tokens(); }
  const Parameters<Draft, T>& parameters() const { return parameters_; }
  const AdamW<Draft, T>& optimizer() const { return optimizer_; }
  const DraftVocabulary& vocabulary() const { return method_.vocabulary(); }

  /// Bytes of activations.
  static constexpr std::size_t activation_bytes(const TrainSettings& settings) { return Method::bytes(settings); }

 private:
  /// In the order of the constructor's members: before the target is moved away.
  static RunSources sources(const Cpu& cpu, const Parameters<Target, T>& target) {
    require_finite<Target>(target.weights(), "target");
    return {fingerprint<Target>(cpu, target.weights()), std::nullopt};
  }

  static const TrainSettings& checked(const Setup& setup, const TrainSettings& settings) {
    check(setup, settings);
    return settings;
  }

  const Parameters<Draft, T>& initialized() {
    parameters_.initialize(settings().seed);
    method_.initialize(parameters_);
    return parameters_;
  }

  Matrix<index_t> windows(index_t count) { return Matrix<index_t>(ids_.data(), count, settings().length); }

  /// Windows of text, cut into documents when they are packed.
  TextWindows text_windows(const Matrix<index_t>& ids) {
    TextWindows all{ids};
    if (settings().packing != Packing::apart) return all;
    const Matrix<index_t> seq_lens(seq_lens_.data(), ids.extent(0), ids.extent(1));
    cut_documents(all.ids, '\n', seq_lens);
    all.seq_lens = seq_lens;
    return all;
  }

  io::json config_json() const {
    return io::draft_config_json<Draft::kind, Config>(method_.layer_ids(), dtype_of<T>, method_.conventions());
  }

  TextWindows part(const TextWindows& windows, index_t index) const {
    return windows.part(index * settings().batch, settings().batch);
  }

  /// Gradients of a step's windows, one batch after the other. \returns false where nothing is supervised in any
  bool learn(const TextWindows& windows, Metrics& sums) {
    const index_t batches = settings().accumulate;
    const auto w = parameters_.weights();
    std::optional<typename Method::Totals> totals;
    if (batches > 1) totals.emplace();
    for (index_t i = 0; totals && i < batches; ++i)
      *totals += method_.count(cpu_, w, part(windows, i), {next_step(), i});
    for (index_t i = 0; i < batches; ++i) {
      sums += method_.forward_backward(cpu_, w, gradients_.weights(), part(windows, i), {next_step(), i}, totals);
    }
    return sums.supervised() > 0;
  }

  Cpu cpu_;
  TrainerProgress progress_;
  Method method_;
  Parameters<Draft, T> parameters_;
  Gradients<Draft, T> gradients_;
  AdamW<Draft, T> optimizer_;
  Buffer<index_t> ids_, seq_lens_;
};

}  // namespace K3SPEC_NAMESPACE
