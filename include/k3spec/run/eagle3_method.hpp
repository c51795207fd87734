#pragma once
/// \file
/// What EAGLE-3 brings to a Trainer: features of the target, the unrolled objective, what it counts.
/// defines: Eagle3Method, Eagle3Trainer

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/batches/target_features.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/drafts/fc_init.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/run/trainer.hpp>

namespace K3SPEC_NAMESPACE {

/// How an EAGLE-3 draft is trained, see Trainer.
template <ForTarget GivenTarget, ForEagle3 Given, Element T, Device D = Cpu>
class Eagle3Method {
  using Config = complete_eagle3_t<Given>;
  using TargetConfig = complete_target_t<GivenTarget>;
  using Features = TargetFeatures<GivenTarget, Given, T, D>;
  static constexpr index_t chunk = chunk_rows(Config::draft_vocab_size);
  using Objective = TttObjective<Eagle3Draft<Given>, T, chunk, D>;

 public:
  using Weights = decltype(std::declval<const Parameters<Eagle3Draft<Given>, T, D>&>().weights());
  using GradientWeights = decltype(std::declval<Gradients<Eagle3Draft<Given>, T, D>&>().weights());
  using value_type = T;
  using device_type = D;
  using Draft = Eagle3Draft<Given>;
  using Target = K3Target<GivenTarget>;
  using Teacher = TeachingTarget<GivenTarget, T, target_device_t<D>>;
  using Metrics = TttMetrics;
  using Totals = TttTotals;
  using Conventions = Eagle3Conventions;
  /// What is chosen before training.
  struct Setup {
    DraftVocabulary vocabulary;
    std::vector<index_t> layer_ids;  ///< the target layers the draft reads, as the conventions count them
    Conventions conventions = DraftForm<DraftKind::eagle3>::conventions<Config>();
  };

  /// Refuses what this kind of draft cannot be trained with.
  /// \throws Error on what does not fit draft and target, and on settings of other drafts
  static void check(const Setup& setup, const TrainSettings& s) {
    if (s.ttt_steps > Draft::max_steps) {
      throw Error("ttt_steps", std::to_string(s.ttt_steps), "1 to " + std::to_string(Draft::max_steps));
    }
    require(!s.variable_prefix, "variable_prefix", "true", "false: EAGLE-3 has no blocks");
    check_fc_init<Draft>(s.fc_init);
    Features::check(setup.vocabulary, setup.layer_ids, setup.conventions);
  }
  static const DraftVocabulary& vocabulary(const Setup& setup) { return setup.vocabulary; }
  /// The target's states that a draft of this setup reads.
  static std::vector<Tap> taps(const Setup& setup) {
    return eagle3_taps(setup.layer_ids, TargetConfig::num_hidden_layers, setup.conventions);
  }

  Eagle3Method(const D& device, Teacher target, Setup setup, const TrainSettings& settings)
      : layer_ids_(std::move(setup.layer_ids)),
        conventions_(setup.conventions),
        features_(std::move(target), std::move(setup.vocabulary), layer_ids_, conventions_, size(settings), device),
        objective_(settings.rows(), settings.ttt_steps, settings.ttt_loss(), device) {
    conventions_.ttt_steps = settings.ttt_steps;  // how many tokens the draft can chain: its files say so
  }

  /// The target's embedding, if it is as wide as the draft, and fc as the settings say.
  template <class TargetWeights>
  static void initialize(const TrainSettings& settings, const TargetWeights& target, Parameters<Draft, T>& parameters) {
    if constexpr (Draft::hidden == Target::hidden) {
      const auto from = on_host(target.embed_tokens);
      std::copy_n(from.view().data(), from.view().size(), parameters.mutable_weights().embed_tokens.data());
    }
    initialize_fc(settings.fc_init, parameters);
  }

  /// Runs the target: what is supervised hangs on its choices. Its states stay for forward_backward.
  Totals count(const D& device, const Weights& w, const TextWindows& windows, MicroBatch at) {
    const auto batch = features_.make(device, windows, at.slot);
    return objective_.count(device, w, batch, features_.teacher(at.slot));
  }

  /// Of windows that supervise nothing: the gradients as they were, and the chains counted.
  Metrics forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const TextWindows& windows,
                           MicroBatch at, const std::optional<Totals>& totals) {
    const auto batch = totals ? features_.made(windows, at.slot) : features_.make(device, windows, at.slot);
    return objective_.forward_backward(device, w, d_w, batch, features_.teacher(at.slot), totals);
  }

  Metrics evaluate(const D& device, const Weights& w, const TextWindows& windows, index_t /*index*/) {
    const auto batch = features_.make(device, windows);
    return objective_.evaluate_only(device, w, batch, features_.teacher());
  }

  Metrics metrics() const { return Metrics(objective_.steps(), objective_.loss()); }

  const DraftVocabulary& vocabulary() const { return features_.vocabulary(); }
  const std::vector<index_t>& layer_ids() const { return layer_ids_; }
  const Conventions& conventions() const { return conventions_; }

  /// Bytes of activations.
  static constexpr std::size_t bytes(const TrainSettings& s) {
    return Features::bytes(size(s)) + Objective::bytes(s.rows(), s.ttt_steps);
  }

 private:
  static constexpr StatesSize size(const TrainSettings& s) { return {s.batch, s.length, s.packing, s.accumulate}; }

  std::vector<index_t> layer_ids_;
  Conventions conventions_;
  Features features_;
  Objective objective_;
};

template <ForTarget TargetConfig, ForEagle3 Config, Element T, Device D = Cpu>
using Eagle3Trainer = Trainer<Eagle3Method<TargetConfig, Config, T, D>>;

}  // namespace K3SPEC_NAMESPACE
