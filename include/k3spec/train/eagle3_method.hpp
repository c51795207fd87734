#pragma once
/// \file
/// What EAGLE-3 brings to a Trainer: features of the target, the unrolled objective, what it counts.
/// defines: Eagle3Method, Eagle3Trainer

#include <algorithm>
#include <utility>
#include <vector>

#include <k3spec/train/metrics.hpp>
#include <k3spec/train/target_features.hpp>
#include <k3spec/train/trainer.hpp>
#include <k3spec/train/ttt_objective.hpp>

namespace k3spec {

template <class Config, Element T>
class Eagle3Method {
 public:
  using value_type = T;
  using Draft = Eagle3Draft<Config>;
  using Target = K3Target<Config>;
  using Result = TttResult;
  using Metrics = TttMetrics;
  struct Setup {
    DraftVocabulary vocabulary;
    std::vector<index_t> layer_ids;  ///< the target layers the draft reads
  };

  Eagle3Method(Parameters<Target, T> target, Setup setup, const TrainSettings& settings)
      : layer_ids_(std::move(setup.layer_ids)),
        features_(std::move(target), std::move(setup.vocabulary), layer_ids_, settings.batch, settings.length),
        objective_(settings.rows(), settings.ttt_steps) {}

  /// The draft shares the target's embedding.
  void initialize(Parameters<Draft, T>& parameters) const {
    const auto from = features_.embedding();
    std::copy_n(from.data(), from.size(), parameters.mutable_weights().embed_tokens.data());
  }

  Result forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                          const typename Draft::template Weights<accumulate_t<T>>& d_w, const TextWindows& windows,
                          index_t /*step*/) {
    const auto batch = features_.make(cpu, windows);
    return objective_.forward_backward(cpu, w, d_w, batch, features_.teacher());
  }

  Result evaluate(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const TextWindows& windows,
                  index_t /*index*/) {
    const auto batch = features_.make(cpu, windows);
    return objective_.evaluate_only(cpu, w, batch, features_.teacher());
  }

  /// A result's sums, or those of nothing.
  Metrics metrics(const Result& result = {}) const {
    Metrics sums(objective_.steps(), objective_.loss().lk != LkLoss::none);
    for (index_t k = 0; k < sums.ttt_steps(); ++k) {
      const auto n = static_cast<std::size_t>(k);
      sums[k].supervised = result.step_supervised[n];
      sums[k].loss = result.step_losses[n] * static_cast<double>(result.step_supervised[n]);
      sums[k].correct = result.step_correct[n];
      sums[k].prefix_hits = result.step_prefix_hits[n];
      sums[k].chains = result.step_valid[n];
      sums[k].alpha = result.step_alphas[n] * static_cast<double>(result.step_supervised[n]);
    }
    return sums;
  }

  const DraftVocabulary& vocabulary() const { return features_.vocabulary(); }
  const std::vector<index_t>& layer_ids() const { return layer_ids_; }

  /// Bytes of activations.
  static constexpr std::size_t bytes(const TrainSettings& s) {
    return TargetFeatures<Config, T>::bytes(s.batch, s.length) + TttObjective<Draft, T>::bytes(s.rows(), s.ttt_steps);
  }

 private:
  std::vector<index_t> layer_ids_;
  TargetFeatures<Config, T> features_;
  TttObjective<Draft, T> objective_;
};

template <class Config, Element T>
using Eagle3Trainer = Trainer<Eagle3Method<Config, T>>;

}  // namespace k3spec
