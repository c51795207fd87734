#pragma once
/// \file
/// What DFlash and DSpark share in training: the target's states as context, and anchors drawn anew for every step.
/// defines: nothing public

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/anchors.hpp>
#include <k3spec/batches/block_batch.hpp>
#include <k3spec/batches/uploaded_states.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/run/train_settings.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// Windows of text through the target, and a batch of blocks made of them.
template <ForTarget GivenTarget, class DraftType, Element T, Device D = Cpu>
class BlockBatches {
  using TargetConfig = complete_target_t<GivenTarget>;

 public:
  using value_type = T;
  using device_type = D;
  using Draft = DraftType;
  using Target = K3Target<GivenTarget>;
  using Teacher = TeachingTarget<GivenTarget, T, target_device_t<D>>;
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
  /// The target's states that a draft of this setup reads.
  static std::vector<Tap> taps(const Setup& setup) {
    return block_taps(setup.layer_ids, TargetConfig::num_hidden_layers, setup.conventions);
  }

  const DraftVocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<index_t>& layer_ids() const { return layer_ids_; }
  const Conventions& conventions() const { return conventions_; }

 protected:
  using Batch = BlockBatch<element_t<D, T>, Draft::target_width>;
  static constexpr index_t block_size = Draft::block_size, target_layers = Draft::config::num_target_layers;

  BlockBatches(const D& device, Slot slot, Teacher target, Setup setup, const TrainSettings& settings)
      : settings_(settings),
        layer_ids_(std::move(setup.layer_ids)),
        conventions_(setup.conventions),
        states_(std::move(target), block_taps(layer_ids_, TargetConfig::num_hidden_layers, conventions_),
                {settings.batch, settings.length, settings.packing}, device),
        documents_(settings.packing == Packing::apart ? settings.rows() : 0),
        sampler_(slot, span(settings)),
        all_count_(settings.rows()),
        prefix_lengths_(settings.variable_prefix ? settings.batch * settings.anchors : 0) {
    all_count_.fill(1);
  }

  using States = states_for_t<GivenTarget, T, D>;

  static constexpr BlockSpan span(const TrainSettings& s) { return {s.batch, s.length, s.anchors, block_size}; }
  static constexpr std::size_t states_bytes(const TrainSettings& s) {
    return States::bytes({s.batch, s.length, s.packing}, target_layers);
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
    return Batch{
        .length = settings_.length,
        .input_ids = Vector<const index_t>(windows.ids.data(), settings_.rows()),
        .loss_mask = mask,
        .target_hidden = Rows<const element_t<D, T>, Draft::target_width>(states_.tapped().data(), settings_.rows()),
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
  void run_target(const D& device, const TextWindows& windows) { states_.run(device, windows); }

  const States& states() const { return states_; }

 private:
  TrainSettings settings_;
  std::vector<index_t> layer_ids_;
  Conventions conventions_;
  DraftVocabulary vocabulary_ = DraftVocabulary::whole(Draft::vocabulary);
  States states_;
  DocumentBounds documents_;
  AnchorSampler sampler_;
  Buffer<std::uint8_t> all_count_;
  Buffer<index_t> prefix_lengths_;
};

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE
