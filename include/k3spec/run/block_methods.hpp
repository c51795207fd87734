#pragma once
/// \file
/// How DFlash and DSpark are trained, see Trainer: the target's states as context, anchors drawn anew for every step,
/// the objective, what it counts.
/// defines: DFlashMethod, DSparkMethod, DFlashTrainer, DSparkTrainer

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/run/block_batches.hpp>
#include <k3spec/run/trainer.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// What DFlash does otherwise than DSpark: embedding and head are the target's own.
template <class DraftType, Element T, Device D>
struct DFlashKind {
  using Draft = DraftType;
  using Objective = DFlashObjective<Draft, T, chunk_rows(Draft::vocabulary), D>;
  using Metrics = BlockMetrics<typename Objective::Sums>;
  static constexpr Slot slot = Slot::anchor_plus_k;

  static void check(const TrainSettings&) {}
  static Objective objective(const D& device, const TrainSettings& s) {
    return {s.batch, s.length, s.anchors, s.gamma, device};
  }

  /// A DFlash draft has nothing of its target's.
  template <class TargetWeights>
  static void initialize(const TrainSettings&, const TargetWeights&, Parameters<Draft, T>&) {}

  /// What the objective reads: the batch, and of the target's tables, as the device has them.
  template <class States, class Batch>
  static const Batch& batch(const States&, const Batch& blocks) {
    return blocks;
  }
  class TargetTables {
   public:
    template <class States>
    TargetTables(const D& device, const States& states)
        : embed_(device, states.tables().embed_tokens), head_(device, states.tables().lm_head) {}
    std::tuple<typename Objective::Target> operands() const {
      return {{embed_.view().matrix(), head_.view().matrix()}};
    }

   private:
    Held<D, T, Draft::vocabulary, Draft::hidden> embed_, head_;
  };
};

/// What DSpark does otherwise than DFlash: its objective reads the target's last states.
template <class DraftType, Element T, Device D>
struct DSparkKind {
  using Draft = DraftType;
  using Objective = DSparkObjective<Draft, T, chunk_rows(Draft::vocabulary), D>;
  using Metrics = BlockMetrics<typename Objective::Sums>;
  static constexpr Slot slot = Slot::anchor_plus_k_plus_1;

  /// Refuses prefixes, and weights with which nothing is learnt.
  static void check(const TrainSettings& s) {
    require(!s.variable_prefix, "variable_prefix", "true", "false: DSpark's blocks show their anchor alone");
    require(s.ce_alpha > 0 || s.l1_alpha > 0 || (Draft::has_confidence && s.confidence_alpha > 0),
            Draft::has_confidence ? "ce_alpha, l1_alpha and confidence_alpha" : "ce_alpha and l1_alpha", "0",
            "one above 0: else nothing is learnt");
  }
  static Objective objective(const D& device, const TrainSettings& s) {
    return {s.batch, s.length, s.anchors, {s.gamma, s.ce_alpha, s.l1_alpha, s.confidence_alpha}, device};
  }

  /// Embedding and head begin as copies of the target's, and the Markov head's table of previous tokens with a
  /// deviation of its own.
  template <class TargetWeights>
  static void initialize(const TrainSettings& s, const TargetWeights& target, Parameters<Draft, T>& parameters) {
    const auto to = parameters.mutable_weights();
    const auto copy = [](const auto& from, T* table) {
      const auto here = on_host(from);
      std::copy_n(here.view().data(), from.size(), table);
    };
    copy(target.embed_tokens, to.embed_tokens.data()), copy(target.lm_head, to.lm_head.weight.data());
    if constexpr (Draft::has_markov) {
      using S = accumulate_t<T>;
      const auto w1 = to.markov_head.markov_w1;
      const auto factor = static_cast<S>(s.markov_deviation / Parameters<Draft, T>::default_deviation);
      std::transform(w1.data(), w1.data() + w1.size(), w1.data(), [&](T x) { return T(factor * S(x)); });
    }
  }

  template <class States, class Batch>
  static typename Objective::Batch batch(const States& states, const Batch& blocks) {
    return {blocks, states.last()};
  }
  struct TargetTables {
    template <class States>
    TargetTables(const D&, const States&) {}
    static std::tuple<> operands() { return {}; }
  };
};

/// How a draft of blocks is trained, see Trainer. \tparam Kind  one of the two above
template <ForTarget TargetConfig, class Kind, Element T, Device D>
class BlockMethod : public BlockBatches<TargetConfig, typename Kind::Draft, T, D> {
  using Base = BlockBatches<TargetConfig, typename Kind::Draft, T, D>;
  using Objective = typename Kind::Objective;

 public:
  using typename Base::Draft, typename Base::Target, typename Base::Teacher, typename Base::Setup,
      typename Base::Totals;
  using Metrics = typename Kind::Metrics;
  using Weights = decltype(std::declval<const Parameters<Draft, T, D>&>().weights());
  using GradientWeights = decltype(std::declval<Gradients<Draft, T, D>&>().weights());

  /// Refuses what this kind of draft cannot be trained with.
  /// \throws Error as for every draft of blocks, and on settings that are not of this kind
  static void check(const Setup& setup, const TrainSettings& s) {
    Base::check(setup, s);
    Kind::check(s);
  }
  template <class TargetWeights>
  static void initialize(const TrainSettings& s, const TargetWeights& target, Parameters<Draft, T>& parameters) {
    Kind::initialize(s, target, parameters);
  }

  BlockMethod(const D& device, Teacher target, Setup setup, const TrainSettings& s)
      : Base(device, Kind::slot, std::move(target), std::move(setup), s),
        objective_(Kind::objective(device, s)),
        tables_(device, this->states()) {}

  Totals count(const D&, const Weights&, const TextWindows& windows, MicroBatch at) {
    const auto blocks = this->draw(windows, at);
    return blocks ? objective_.count(Kind::batch(this->states(), *blocks)) : Totals{};
  }

  Metrics forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const TextWindows& windows,
                           MicroBatch at, const std::optional<Totals>& totals) {
    const auto blocks = this->draw(windows, at);
    if (!blocks) return {};
    this->run_target(device, windows);
    const auto run = [&](const auto&... of_target) {
      return objective_.forward_backward(device, w, d_w, of_target..., Kind::batch(this->states(), *blocks), totals);
    };
    return {std::apply(run, tables_.operands())};
  }

  Metrics evaluate(const D& device, const Weights& w, const TextWindows& windows, index_t index) {
    const auto blocks = this->draw_held_out(windows, index);
    if (!blocks) return {};
    this->run_target(device, windows);
    const auto run = [&](const auto&... of_target) {
      return objective_.evaluate_only(device, w, of_target..., Kind::batch(this->states(), *blocks));
    };
    return {std::apply(run, tables_.operands())};
  }

  Metrics metrics() const { return {}; }

  /// Bytes of activations.
  static constexpr std::size_t bytes(const TrainSettings& s) {
    return Base::states_bytes(s) + Objective::bytes(Base::span(s));
  }

 private:
  Objective objective_;
  typename Kind::TargetTables tables_;
};

}  // namespace detail

template <ForTarget TargetConfig, ForDFlash Config, Element T, Device D = Cpu>
using DFlashMethod = detail::BlockMethod<TargetConfig, detail::DFlashKind<DFlashDraft<Config>, T, D>, T, D>;
template <ForTarget TargetConfig, ForDSpark Config, Element T, Device D = Cpu>
using DSparkMethod = detail::BlockMethod<TargetConfig, detail::DSparkKind<DSparkDraft<Config>, T, D>, T, D>;

template <ForTarget TargetConfig, ForDFlash Config, Element T, Device D = Cpu>
using DFlashTrainer = Trainer<DFlashMethod<TargetConfig, Config, T, D>>;
template <ForTarget TargetConfig, ForDSpark Config, Element T, Device D = Cpu>
using DSparkTrainer = Trainer<DSparkMethod<TargetConfig, Config, T, D>>;

}  // namespace K3SPEC_NAMESPACE
