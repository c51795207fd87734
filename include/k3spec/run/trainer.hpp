#pragma once
/// \file
/// Trains a draft on the states of a frozen Kimi K3 target. A step is: windows of text through the target, the draft's
/// objective forward and backward, the gradient clipped, AdamW. Nothing is allocated in it. A step of several batches
/// has the gradient, the losses and the draws of one large batch: denominators are counted over all of them first.
///
/// Ranks share a step: each has an equal part of its batches, in the order of ranks, and what is counted, the gradients
/// and the metrics are summed over all ranks. So n ranks train what one does that has all batches, but for the order of
/// sums, and all of them the same bits, if they are given the same target, setup, settings and text. A step that fails
/// on one rank is the last of all.
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
///                                        Totals: what the batch adds to the step's denominators; slots are below the
///                                        accumulate of the settings that the Method was made with
/// forward_backward(cpu, weights, gradients, windows, MicroBatch, totals)
///                                        Metrics. Totals are of all the step's batches, each counted before; none:
///                                        there is one batch, not counted
/// evaluate(cpu, weights, windows, index) Metrics; the same choices for the same index
/// metrics()                              those of nothing
/// vocabulary(), layer_ids(), conventions(), bytes(settings)
/// ```
/// Metrics has +=, loss(), supervised(), accuracy(), simulated_accept_length(), and visit(v), which calls v(name,
/// value) for what else there is; Totals has +=; both are Summable (comm/sum.hpp).
/// defines: Trainer

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/text.hpp>
#include <k3spec/comm/single.hpp>
#include <k3spec/comm/sum.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/run/check_checkpoint.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// Trains the draft of a Method, whose form is described above.
/// \tparam Comm  what this rank has of the others
template <class Method, Communicator Comm = Single>
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
    Metrics metrics;               ///< of all ranks
    double lr = 0, grad_norm = 0;  ///< the norm before clipping
    bool skipped = false;          ///< the gradient was not finite, or nothing was supervised
  };

  /// Whether there can be such a run, before a target is loaded for it.
  /// \throws Error naming the setting or the part of the setup that is out of range, does not fit draft and target, or
  ///         means nothing to this kind of draft, or that the batches cannot be divided among so many ranks
  static void check(const Setup& setup, const TrainSettings& settings, index_t ranks = 1) {
    settings.check();
    require(ranks >= 1, "ranks", std::to_string(ranks), "at least 1");
    if (settings.accumulate % ranks != 0) {
      throw Error("accumulate", std::to_string(settings.accumulate) + " batches a step",
                  "a multiple of " + std::to_string(ranks) + ", the ranks");
    }
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
  Trainer(const Cpu& cpu, Parameters<Target, T> target, Setup setup, const TrainSettings& settings, Comm comm = Comm())
      : cpu_(cpu),
        comm_(std::move(comm)),
        progress_{checked(setup, settings), 0, 0, sources(cpu, target)},
        method_(std::move(target), std::move(setup), of_rank(settings, comm_.size())),
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

  /// One step on the text's windows that are this step's and this rank's turn.
  Report step(const ByteText& text) {
    return with_others([&] {
      const auto ids = windows(settings().windows());
      text.random_windows(settings().seed, next_step(), ids);
      const index_t own = settings().windows() / comm_.size();
      return make_step(text_windows(ids).part(comm_.rank() * own, own));
    });
  }

  /// One step on other windows, those of this rank: as many as its part of the batches has.
  /// \throws Error with nothing trained, and the step still to be made; but this rank has left the others
  Report step(const TextWindows& windows) {
    return with_others([&] { return make_step(windows); });
  }

  /// Loss and counters of one batch with nothing trained; no other rank is asked.
  /// \param index  which batch of a series it is
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

  /// Makes a new checkpoint: the draft and all that is needed to go on. What all ranks have the first one writes.
  /// \throws Error, with nothing saved, when a parameter or a moment is not finite
  void save(CheckpointDirectory& checkpoints) {
    require_finite<Draft>(parameters_.weights(), "draft");
    detail::for_optimizer_state(optimizer_, [](const char* part, auto views) { require_finite<Draft>(views, part); });
    if (comm_.rank() != 0) return;
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
  /// Rows, and so tokens, of a step, of all ranks.
  index_t rows() const { return settings().tokens(); }
  const Parameters<Draft, T>& parameters() const { return parameters_; }
  const AdamW<Draft, T>& optimizer() const { return optimizer_; }
  const DraftVocabulary& vocabulary() const { return method_.vocabulary(); }

  const Comm& communicator() const { return comm_; }

  /// Bytes of one rank's activations.
  static constexpr std::size_t activation_bytes(const TrainSettings& settings, index_t ranks = 1) {
    return Method::bytes(of_rank(settings, ranks));
  }

 private:
  /// In the order of the constructor's members: before the target is moved away.
  static RunSources sources(const Cpu& cpu, const Parameters<Target, T>& target) {
    require_finite<Target>(target.weights(), "target");
    return {fingerprint<Target>(cpu, target.weights()), std::nullopt};
  }

  const TrainSettings& checked(const Setup& setup, const TrainSettings& settings) const {
    check(setup, settings, comm_.size());
    return settings;
  }

  static constexpr TrainSettings of_rank(TrainSettings settings, index_t ranks) {
    settings.accumulate /= ranks;
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

  /// What a rank does that the others wait for: where it fails, they are told.
  template <class F>
  Report with_others(F&& step) {
    try {
      return step();
    } catch (...) {
      comm_.leave();
      throw;
    }
  }

  /// \param windows  of this rank
  Report make_step(const TextWindows& windows) {
    const index_t own = settings().accumulate / comm_.size();
    windows.check(own * settings().batch, settings().length, settings().packing);
    gradients_.zero();
    Report report{method_.metrics()};
    report.lr = settings().schedule(next_step());
    if (learn(windows, own, report.metrics)) {
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

  /// Gradients of this rank's windows, one of its `own` batches after the other, and then of all ranks.
  /// \returns false where nothing is supervised in any
  bool learn(const TextWindows& windows, index_t own, Metrics& sums) {
    const auto w = parameters_.weights();
    const auto part = [&](index_t i) { return windows.part(i * settings().batch, settings().batch); };
    const auto at = [&](index_t i) { return MicroBatch{next_step(), comm_.rank() * own + i, i}; };
    std::optional<typename Method::Totals> totals;
    if (settings().accumulate > 1) {
      totals.emplace();
      for (index_t i = 0; i < own; ++i) *totals += method_.count(cpu_, w, part(i), at(i));
      sum(comm_, *totals);
    }
    for (index_t i = 0; i < own; ++i) {
      sums += method_.forward_backward(cpu_, w, gradients_.weights(), part(i), at(i), totals);
    }
    sum(comm_, sums);
    if (sums.supervised() == 0) return false;
    comm_.sum(cpu_, gradients_.flat());
    return true;
  }

  Cpu cpu_;
  [[no_unique_address]] Comm comm_;
  TrainerProgress progress_;
  Method method_;
  Parameters<Draft, T> parameters_;
  Gradients<Draft, T> gradients_;
  AdamW<Draft, T> optimizer_;
  Buffer<index_t> ids_, seq_lens_;
};

}  // namespace K3SPEC_NAMESPACE
