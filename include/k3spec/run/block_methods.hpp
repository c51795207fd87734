#pragma once
/// \file
/// What DFlash and DSpark bring to a Trainer: the target's states as context, anchors drawn anew for every step, the
/// objective, what it counts.
/// defines: DFlashMethod, DSparkMethod, DFlashTrainer, DSparkTrainer

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/anchors.hpp>
#include <k3spec/batches/target_states.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/run/trainer.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// The part that both kinds share: windows of text through the target, and a batch of blocks made of them.
template <ForTarget GivenTarget, class DraftType, Element T>
class BlockBatches {
  using TargetConfig = complete_target_t<GivenTarget>;

 public:
  using value_type = T;
  using Draft = DraftType;
  using Target = K3Target<GivenTarget>;
  using Conventions = typename DraftForm<Draft::kind>::Conventions;
  using Totals = BlockTotals;
  struct Setup {
    std::vector<index_t> layer_ids;  ///< the target layers whose states make the context, as the conventions count them
    Conventions conventions = DraftForm<Draft::kind>::template conventions<typename Draft::config>();
  };

  /// A config without its fields has been refused before: nothing more is said of it.
  static constexpr bool refused = stands_in<typename Draft::config> || stands_in<TargetConfig>;
  static_assert(refused || Draft::config::target_hidden_size == Target::hidden,
                "block drafts: target_hidden_size is not the target's hidden_size");
  static_assert(refused || Draft::hidden == Target::hidden,
                "block drafts: hidden_size is not that of the target, whose embedding and head they use");
  static_assert(refused || Draft::vocabulary == TargetConfig::vocab_size,
                "block drafts: vocab_size is not the target's");

  /// \throws Error on what does not fit draft and target, and on settings of other drafts
  static void check(const Setup& setup, const TrainSettings& s) {
    check_mask_token<typename Draft::config>();
    if (static_cast<index_t>(setup.layer_ids.size()) != target_layers) {
      throw Error("target layers", std::to_string(setup.layer_ids.size()), std::to_string(target_layers));
    }
    block_taps(setup.layer_ids, TargetConfig::num_hidden_layers, setup.conventions);
    if (s.length < block_size) {
      throw Error("length", std::to_string(s.length), "at least " + std::to_string(block_size) + ", a block");
    }
    if (s.anchors > TrainSettings::max_rows / block_size / s.batch) {
      throw Error("anchors", std::to_string(s.anchors) + " in each of " + std::to_string(s.batch) + " windows",
                  "at most " + std::to_string(TrainSettings::max_rows / block_size) + " blocks a step");
    }
    const auto name = []<class E>(E value) { return names_of<E>[static_cast<std::size_t>(value)]; };
    require(s.lk == LkLoss::none, "lk", name(s.lk), "none: it is a loss of EAGLE-3");
    require(s.fc_init == FcInit::normal, "fc_init", name(s.fc_init), "normal: it is of EAGLE-3's fc");
  }
  static DraftVocabulary vocabulary(const Setup&) { return DraftVocabulary::whole(Draft::vocabulary); }

  const DraftVocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<index_t>& layer_ids() const { return layer_ids_; }
  const Conventions& conventions() const { return conventions_; }

 protected:
  using Batch = BlockBatch<T, Draft::target_width>;
  static constexpr index_t block_size = Draft::block_size, target_layers = Draft::config::num_target_layers;

  BlockBatches(Slot slot, Parameters<Target, T> target, Setup setup, const TrainSettings& settings)
      : settings_(settings),
        layer_ids_(std::move(setup.layer_ids)),
        conventions_(setup.conventions),
        states_(std::move(target), block_taps(layer_ids_, TargetConfig::num_hidden_layers, conventions_),
                settings.batch, settings.length, settings.packing),
        documents_(settings.packing == Packing::apart ? settings.rows() : 0),
        sampler_(slot, span(settings)),
        all_count_(settings.rows()),
        prefix_lengths_(settings.variable_prefix ? settings.batch * settings.anchors : 0) {
    all_count_.fill(1);
  }

  static constexpr BlockSpan span(const TrainSettings& s) { return {s.batch, s.length, s.anchors, block_size}; }
  static constexpr std::size_t states_bytes(const TrainSettings& s) {
    return TargetStates<GivenTarget, T>::bytes(s.batch, s.length, target_layers, s.packing);
  }

  /// Draws anchors and, for training, prefixes; in decoding blocks show their anchor alone. The target has not run.
  /// \param turn   what they are drawn for
  /// \param first  where the first window stands among all of the turn
  /// \returns none where nothing can be an anchor
  std::optional<Batch> draw(const TextWindows& windows, index_t turn, index_t first, bool prefixed) {
    windows.check(settings_.batch, settings_.length, settings_.packing);
    const Vector<const std::uint8_t> all(all_count_.data(), all_count_.size());
    const auto mask = windows.loss_mask.extent(0) == 0 ? all : windows.loss_mask;
    const Documents documents = documents_.of(windows.seq_lens, settings_.length);
    if (sampler_.draw(mask, documents, settings_.seed, turn, first) == 0) return std::nullopt;
    const Vector<index_t> prefixes(prefix_lengths_.data(), prefixed ? prefix_lengths_.size() : 0);
    if (prefixes.size() > 0) {
      draw_prefix_lengths(block_size, settings_.prefix_base, settings_.seed, turn, prefixes, first * settings_.anchors);
    }
    return Batch{.length = settings_.length,
                 .input_ids = Vector<const index_t>(windows.ids.data(), settings_.rows()),
                 .loss_mask = mask,
                 .target_hidden = Rows<const T, Draft::target_width>(states_.tapped().data(), settings_.rows()),
                 .anchors = sampler_.anchors(),
                 .keep = sampler_.keep(),
                 .documents = documents,
                 .prefix_lengths = prefixes};
  }
  std::optional<Batch> draw(const TextWindows& windows, MicroBatch at) {
    return draw(windows, at.step, at.index * settings_.batch, true);
  }
  /// Of held-out text, whose turn is none of training's: its streams are others.
  std::optional<Batch> draw_held_out(const TextWindows& windows, index_t index) {
    constexpr auto turn = static_cast<index_t>(streams::held_out_anchors - streams::anchors);
    return draw(windows, turn, index * settings_.batch, false);
  }
  void run_target(const Cpu& cpu, const TextWindows& windows) { states_.run(cpu, windows); }

  const TargetStates<GivenTarget, T>& states() const { return states_; }

 private:
  TrainSettings settings_;
  std::vector<index_t> layer_ids_;
  Conventions conventions_;
  DraftVocabulary vocabulary_ = DraftVocabulary::whole(Draft::vocabulary);
  TargetStates<GivenTarget, T> states_;
  DocumentBounds documents_;
  AnchorSampler sampler_;
  Buffer<std::uint8_t> all_count_;
  Buffer<index_t> prefix_lengths_;
};

}  // namespace detail

/// How a DFlash draft is trained, see Trainer.
template <ForTarget TargetConfig, ForDFlash Config, Element T>
class DFlashMethod : public detail::BlockBatches<TargetConfig, DFlashDraft<Config>, T> {
  using Base = detail::BlockBatches<TargetConfig, DFlashDraft<Config>, T>;
  using Objective = DFlashObjective<DFlashDraft<Config>, T>;

 public:
  using typename Base::Draft, typename Base::Target, typename Base::Setup;
  using Metrics = BlockMetrics<DFlashSums>;
  using typename Base::Totals;

  DFlashMethod(Parameters<Target, T> target, Setup setup, const TrainSettings& s)
      : Base(Slot::anchor_plus_k, std::move(target), std::move(setup), s),
        objective_(s.batch, s.length, s.anchors, s.gamma) {}

  /// A DFlash draft has nothing of its target's.
  void initialize(Parameters<Draft, T>&) const {}

  Totals count(const Cpu&, const typename Draft::template Weights<const T>&, const TextWindows& windows,
               MicroBatch at) {
    const auto batch = this->draw(windows, at);
    return batch ? objective_.count(*batch) : Totals{};
  }
  Metrics forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                           const typename Draft::template Weights<accumulate_t<T>>& d_w, const TextWindows& windows,
                           MicroBatch at, const std::optional<Totals>& totals) {
    const auto batch = this->draw(windows, at);
    if (!batch) return {};
    this->run_target(cpu, windows);
    return {objective_.forward_backward(cpu, w, d_w, of_target(), *batch, totals)};
  }
  Metrics evaluate(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const TextWindows& windows,
                   index_t index) {
    const auto batch = this->draw_held_out(windows, index);
    if (!batch) return {};
    this->run_target(cpu, windows);
    return {objective_.evaluate_only(cpu, w, of_target(), *batch)};
  }
  Metrics metrics() const { return {}; }

  /// Bytes of activations.
  static constexpr std::size_t bytes(const TrainSettings& s) {
    return Base::states_bytes(s) + Objective::bytes(Base::span(s));
  }

 private:
  DFlashTarget<T> of_target() const {
    const auto w = this->states().weights();
    return {w.embed_tokens.matrix(), w.lm_head.matrix()};
  }

  Objective objective_;
};

/// How a DSpark draft is trained, see Trainer.
template <ForTarget TargetConfig, ForDSpark Config, Element T>
class DSparkMethod : public detail::BlockBatches<TargetConfig, DSparkDraft<Config>, T> {
  using Base = detail::BlockBatches<TargetConfig, DSparkDraft<Config>, T>;
  using Objective = DSparkObjective<DSparkDraft<Config>, T>;

 public:
  using typename Base::Draft, typename Base::Target, typename Base::Setup;
  using Metrics = BlockMetrics<typename Objective::Sums>;
  using typename Base::Totals;

  /// Refuses what this kind of draft cannot be trained with.
  /// \throws Error as for every block draft, on prefixes, and on weights with which nothing is learnt
  static void check(const Setup& setup, const TrainSettings& s) {
    Base::check(setup, s);
    require(!s.variable_prefix, "variable_prefix", "true", "false: DSpark's blocks show their anchor alone");
    require(s.ce_alpha > 0 || s.l1_alpha > 0 || (Draft::has_confidence && s.confidence_alpha > 0),
            Draft::has_confidence ? "ce_alpha, l1_alpha and confidence_alpha" : "ce_alpha and l1_alpha", "0",
            "one above 0: else nothing is learnt");
  }

  DSparkMethod(Parameters<Target, T> target, Setup setup, const TrainSettings& s)
      : Base(Slot::anchor_plus_k_plus_1, std::move(target), std::move(setup), s),
        markov_deviation_(s.markov_deviation),
        objective_(s.batch, s.length, s.anchors, {s.gamma, s.ce_alpha, s.l1_alpha, s.confidence_alpha}) {}

  /// Embedding and head begin as copies of the target's, and the Markov head's table of previous tokens with a
  /// deviation of its own.
  void initialize(Parameters<Draft, T>& parameters) const {
    const auto from = this->states().weights();
    const auto to = parameters.mutable_weights();
    std::copy_n(from.embed_tokens.data(), from.embed_tokens.size(), to.embed_tokens.data());
    std::copy_n(from.lm_head.data(), from.lm_head.size(), to.lm_head.weight.data());
    if constexpr (Draft::has_markov) {
      const auto w1 = to.markov_head.markov_w1;
      const double factor = markov_deviation_ / Parameters<Draft, T>::default_deviation;
      k3spec::evaluate(Cpu{}, factor * expr::arg<0>, w1, w1);
    }
  }

  Totals count(const Cpu&, const typename Draft::template Weights<const T>&, const TextWindows& windows,
               MicroBatch at) {
    const auto batch = this->draw(windows, at);
    return batch ? objective_.count(with_teacher(*batch)) : Totals{};
  }
  Metrics forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                           const typename Draft::template Weights<accumulate_t<T>>& d_w, const TextWindows& windows,
                           MicroBatch at, const std::optional<Totals>& totals) {
    const auto batch = this->draw(windows, at);
    if (!batch) return {};
    this->run_target(cpu, windows);
    return {objective_.forward_backward(cpu, w, d_w, with_teacher(*batch), totals)};
  }
  Metrics evaluate(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const TextWindows& windows,
                   index_t index) {
    const auto batch = this->draw_held_out(windows, index);
    if (!batch) return {};
    this->run_target(cpu, windows);
    return {objective_.evaluate_only(cpu, w, with_teacher(*batch))};
  }
  Metrics metrics() const { return {}; }

  /// Bytes of activations.
  static constexpr std::size_t bytes(const TrainSettings& s) {
    return Base::states_bytes(s) + Objective::bytes(Base::span(s));
  }

 private:
  typename Objective::Batch with_teacher(const typename Base::Batch& batch) const {
    return {batch, this->states().last()};
  }

  double markov_deviation_;
  Objective objective_;
};

template <ForTarget TargetConfig, ForDFlash Config, Element T>
using DFlashTrainer = Trainer<DFlashMethod<TargetConfig, Config, T>>;
template <ForTarget TargetConfig, ForDSpark Config, Element T>
using DSparkTrainer = Trainer<DSparkMethod<TargetConfig, Config, T>>;

}  // namespace K3SPEC_NAMESPACE
