#pragma once
/// \file
/// Trains a draft on the states of a frozen Kimi K3 target. A step is: windows of text through the target, the draft's
/// objective forward and backward, clipping, AdamW or Muon. Nothing is allocated in it. A step of several batches has
/// the gradient, the losses and the draws of one large batch: denominators are counted over all of them first.
///
/// Ranks share a step: each has an equal part of its batches, in the order of ranks, and what is counted, the gradients
/// and the metrics are summed over all ranks. So n ranks train what one does that has all batches, but for the order of
/// sums, and all of them the same bits, if they are given the same target, setup, settings and text. An evaluation of a
/// text they share likewise. A step that fails on one rank is the last of all.
///
/// What differs between drafts is a Method (run/method.hpp), which owns the target and the objective.
/// defines: Trainer

#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/token_data.hpp>
#include <k3spec/comm/single.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/core/target_device.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/run/check_checkpoint.hpp>
#include <k3spec/run/fresh_draft.hpp>
#include <k3spec/run/host_copies.hpp>
#include <k3spec/run/method.hpp>
#include <k3spec/run/own_draft.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/same_settings.hpp>
#include <k3spec/run/step_gradients.hpp>
#include <k3spec/run/text_cutter.hpp>
#include <k3spec/run/trained_draft.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// Trains the draft of a Method.
/// \tparam Comm  what this rank has of the others
template <class Method, class Comm = Single>
class Trainer {
 public:
  using T = typename Method::value_type;
  using D = typename Method::device_type;
  // Not in the head: there g++ would look at the Method without its access rules, and a config's forgotten field.
  static_assert(TrainingMethod<Method> && Communicator<Comm, D>);
  static_assert(HasBackward<Method>, "Trainer: the method has no forward_backward, so no gradients");
  using Draft = typename Method::Draft;
  using Target = typename Method::Target;
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
    frozen_slots<Draft>(settings.freeze);
    Method::check(setup, settings);
    // A run that could not be saved does not begin.
    draft_config_of<Draft>(setup.layer_ids, dtype_of<T>, setup.conventions);
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

  /// The target's states that a draft of this setup reads.
  static std::vector<Tap> taps(const Setup& setup) { return Method::taps(setup); }

  /// A draft with fresh parameters, N(0, 0.02²) from the settings' seed, and what it takes from the target.
  /// \param device  copied if that is what copies of it are for (Cpu); else it must outlive the trainer
  /// \param target  on the host; its parameters go to the device
  /// \throws Error as check does, on a target with a number that is not finite, and on ranks with other settings
  Trainer(const D& device, Parameters<Target, T> target, Setup setup, const TrainSettings& settings, Comm comm = Comm())
      : Trainer(device, std::as_const(target).weights(), std::move(target), std::move(setup), settings,
                std::move(comm)) {}
  /// The same of a target in a checkpoint (target/load.hpp), each of whose weights is kept once.
  Trainer(const D& device, const typename Target::template Weights<Unread<T>>& target, Setup setup,
          const TrainSettings& settings, Comm comm = Comm())
      : Trainer(device, target, target, std::move(setup), settings, std::move(comm)) {}
  /// The same of a cache of what a target said of the windows that are trained on: the same bits, without the target.
  /// \throws Error as above, and on a cache of other states or windows
  Trainer(const D& device, const typename Method::Teacher::Stored& target, Setup setup, const TrainSettings& settings,
          Comm comm = Comm())
      : Trainer(device, target, target, std::move(setup), settings, std::move(comm)) {}

  /// Says which texts the run learns from and is measured on, for its checkpoints. Without it they say that the caller
  /// made the windows.
  void set_data(const DataFingerprints& data) { progress_.sources.data = data; }

  /// Begins a new run with the parameters of a draft instead of fresh ones.
  /// \throws Error when a step is made already, or a parameter is not finite
  void start_from(Parameters<Draft, T> parameters) {
    if (next_step() > 0) throw Error("step", std::to_string(next_step()), "0, where a run can start from a draft");
    draft_.replace(device_, std::move(parameters));
  }

  /// One step on the data's windows that are this step's and this rank's turn.
  Report step(const TokenData& data) {
    return with_others([&] {
      const index_t own = settings().windows() / comm_.size();
      return make_step(cutter_.of_step(data, next_step()).part(comm_.rank() * own, own));
    });
  }

  /// One step on other windows, those of this rank: as many as its part of the batches has.
  /// \throws Error with nothing trained, and the step still to be made; but this rank has left the others
  Report step(const TextWindows& windows) {
    return with_others([&] { return make_step(windows); });
  }

  /// Loss and counters of one batch with nothing trained, of `weights`; no other rank is asked.
  /// \param index  which batch of a series it is
  Metrics evaluate(const TextWindows& windows, index_t index = 0) {
    return method_.evaluate(device_, draft_.weights(), windows, index);
  }

  /// The same summed over the first `batches` batches of data, windows one behind the other; fewer if it is shorter.
  /// Each rank, which all must call it, takes an equal part of them as far as they can be divided.
  Metrics evaluate(const TokenData& data, index_t batches) {
    return with_others([&] {
      const index_t all = cutter_.evaluations(data, batches);
      const auto begin_of = [&](index_t rank) { return all * rank / comm_.size(); };
      Metrics total = method_.metrics();
      for (index_t i = begin_of(comm_.rank()); i < begin_of(comm_.rank() + 1); ++i) {
        total += evaluate(cutter_.of_evaluation(data, i), i);
      }
      sum(comm_, total);
      return total;
    });
  }

  /// Makes a new checkpoint: the draft with its `weights`, and all that is needed to go on. What all ranks have the
  /// first one writes.
  /// \param best  `best` is to lead to it, too
  /// \throws Error, with nothing saved, when a parameter or a moment is not finite
  void save(CheckpointDirectory& checkpoints, bool best = false) {
    draft_.save(device_, [&](const auto& weights, auto& optimizer, auto tensors) {
      if (comm_.rank() != 0) return;
      checkpoints.save(
          next_step(),
          [&](const std::filesystem::path& directory) {
            save_draft<Draft>(directory, weights, method_.vocabulary(), config_json(), step_metadata(next_step()));
            checkpoints.before("trainer");
            save_trainer(directory, optimizer, progress_, std::move(tensors));
          },
          best);
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
    draft_.load(device_, directory);
    saved.sources = own;
    progress_ = saved;
  }

  // ---- See TrainerProgress, which says when each is refused

  void set_total_steps(index_t steps) { progress_.set_total_steps(steps); }
  void change_total_steps(index_t steps) { progress_.change_total_steps(steps); }

  const TrainSettings& settings() const { return progress_.settings; }
  index_t next_step() const { return progress_.next_step; }
  /// What the caller has seen of held-out text, for its checkpoints.
  HeldoutProgress& heldout() { return progress_.heldout; }
  /// Steps that found nothing to supervise and changed nothing.
  index_t unsupervised() const { return progress_.unsupervised; }
  /// Rows, and so tokens, of a step, of all ranks.
  index_t rows() const { return settings().tokens(); }
  // All in the device's memory.
  const Parameters<Draft, T, D>& parameters() const { return draft_.parameters(); }
  /// The average of the parameters with TrainSettings::ema, else the parameters: what held-out text is measured with,
  /// and what a checkpoint's draft is.
  auto weights() const { return draft_.weights(); }
  const AdamW<Draft, T, D>& optimizer() const { return draft_.optimizer(); }
  const DraftVocabulary& vocabulary() const { return method_.vocabulary(); }

  const Comm& communicator() const { return comm_; }

  /// Bytes of one rank's activations.
  static constexpr std::size_t activation_bytes(const TrainSettings& settings, index_t ranks = 1) {
    return Method::bytes(of_rank(settings, ranks));
  }

 private:
  /// A device whose copies are none is referred to.
  using HeldDevice = std::conditional_t<std::is_trivially_copyable_v<D>, D, const D&>;

  template <class Weights, class Made>
  Trainer(const D& device, const Weights& weights, Made&& target, Setup setup, const TrainSettings& settings, Comm comm)
      : device_(device),
        comm_(std::move(comm)),
        progress_{checked(setup, settings)},
        draft_(device, settings, fresh_draft<Method>(target_device(device), settings, weights)),
        method_(device, known(weights, std::forward<Made>(target)), std::move(setup), of_rank(settings, comm_.size())),
        cutter_(settings) {}

  /// The target or its cache, when its fingerprint is taken.
  template <class Made>
  auto known(const auto& weights, Made&& target) {
    progress_.sources.target = target_fingerprint<Target>(target_device(device_), weights);
    return typename Method::Teacher(target_device(device_), std::forward<Made>(target));
  }

  const TrainSettings& checked(const Setup& setup, const TrainSettings& settings) {
    check(setup, settings, comm_.size());
    require_same_settings(comm_, settings);
    return settings;
  }

  static constexpr TrainSettings of_rank(TrainSettings settings, index_t ranks) {
    settings.accumulate /= ranks;
    return settings;
  }

  io::json config_json() const {
    return draft_config_of<Draft>(method_.layer_ids(), dtype_of<T>, method_.conventions());
  }

  /// What a rank does that the others wait for: where it fails, they are told.
  template <class F>
  auto with_others(F&& work) {
    try {
      return work();
    } catch (...) {
      comm_.leave();
      throw;
    }
  }

  /// \param windows  of this rank
  Report make_step(const TextWindows& windows) {
    const index_t own = settings().accumulate / comm_.size();
    windows.check(own * settings().batch, settings().length, settings().packing);
    draft_.zero_gradients(device_);
    Report report{method_.metrics()};
    report.lr = settings().schedule(next_step());
    if (add_gradients(device_, settings(), {windows, next_step(), own}, method_, draft_, comm_, report.metrics)) {
      const auto update = draft_.update(device_, report.lr);
      report.grad_norm = update.grad_norm;
      report.skipped = update.skipped;
    } else {
      ++progress_.unsupervised;
      report.skipped = true;
    }
    ++progress_.next_step;
    progress_.heldout.accept_length.reset();
    return report;
  }

  HeldDevice device_;
  [[no_unique_address]] Comm comm_;
  TrainerProgress progress_;
  TrainedDraft<Draft, T, D> draft_;
  Method method_;
  TextCutter cutter_;
};

}  // namespace K3SPEC_NAMESPACE
