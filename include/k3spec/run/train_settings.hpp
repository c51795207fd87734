#pragma once
/// \file
/// What decides a run's numbers, apart from data and model. A checkpoint carries it, so that a resumed run goes on with
/// the same. `visit` names each setting once: what checks them, their JSON and a program's flags are made of it.
/// defines: TrainSettings

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/window_sampling.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/drafts/fc_init.hpp>
#include <k3spec/objectives/ttt_loss.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>
#include <k3spec/optimiser/muon.hpp>
#include <k3spec/optimiser/schedule.hpp>

namespace K3SPEC_NAMESPACE {

/// The numbers of a training run.
struct TrainSettings {
  /// Far more than a step can hold, and so few that no size made of them overflows.
  static constexpr index_t max_rows = std::numeric_limits<std::int32_t>::max();

  index_t batch = 8;         ///< windows that go through the draft together
  index_t accumulate = 1;    ///< batches a step, of all ranks: their gradients add up to those of one large batch
  index_t length = 192;      ///< tokens a window
  index_t ttt_steps = 5;     ///< EAGLE-3: drafted tokens the unroll trains
  LkLoss lk = LkLoss::none;  ///< EAGLE-3: the loss, see TttLoss
  double lk_kl_scale = 1, lk_kl_decay = 3;  ///< of LkLoss::lambda
  FcInit fc_init = FcInit::normal;          ///< EAGLE-3
  /// apart: windows are cut into the data's documents; a text's are its lines.
  Packing packing = Packing::none;
  WindowSampling sampling = WindowSampling::random;  ///< which windows a step takes
  index_t anchors = 24;                              ///< block drafts: blocks in a window
  /// Block drafts: slots weigh exp(-k / gamma), k counted from the first supervised one; infinity: all alike.
  double gamma = 4;
  /// DFlash: blocks begin with a random number of the text's own tokens, `l` of them with a chance as prefix_base^l.
  bool variable_prefix = false;
  double prefix_base = 0.9;
  /// DSpark: weights of cross-entropy, |p - q| and the confidence head's loss.
  double ce_alpha = 0.1, l1_alpha = 0.9, confidence_alpha = 1;
  /// DSpark: deviation of the Markov head's fresh table of previous tokens. Wide: W2 starts small, and an update of its
  /// values then moves the logits as fast as the rest of the draft learns.
  double markov_deviation = 4;
  std::uint64_t seed = 1;  ///< of fresh parameters and of the choice of windows
  WarmupCosine schedule;
  OptimizerKind optimizer_kind = OptimizerKind::adamw;
  AdamWOptions optimizer;  ///< also of what OptimizerKind::muon leaves to AdamW
  MuonOptions muon;        ///< of OptimizerKind::muon
  /// Decay of an average of the parameters (optimiser/ema.hpp), which is what held-out text is measured with and what a
  /// checkpoint's draft is then; none: no average.
  std::optional<double> ema;
  /// Tensors that stay as they are: names as in a checkpoint, with * and ?, see frozen_slots.
  std::vector<std::string> freeze;

  /// Rows, and so tokens, of a batch.
  constexpr index_t rows() const { return batch * length; }
  /// Windows of a step, and their tokens.
  constexpr index_t windows() const { return accumulate * batch; }
  constexpr index_t tokens() const { return accumulate * rows(); }
  /// Muon's numbers, where it is used.
  constexpr std::optional<MuonOptions> used_muon() const {
    return optimizer_kind == OptimizerKind::muon ? std::optional(muon) : std::nullopt;
  }
  constexpr TttLoss ttt_loss() const { return {lk, lk_kl_scale, lk_kl_decay}; }

  /// What each may be for itself.
  static constexpr Range<index_t> batch_range{1}, accumulate_range{1}, length_range{2}, anchors_range{1};
  static constexpr Range<index_t> ttt_steps_range{1, TttMetrics::max_steps};
  static constexpr Range<double> gamma_range{.least = 0,
                                             .most = std::numeric_limits<double>::infinity(),
                                             .above = true,
                                             .meaning = "infinity: slots weigh alike"};
  static constexpr Range<double> positive{.least = 0, .above = true}, weight_range{.least = 0};
  static constexpr Range<double> ema_range{.least = 0, .most = 1, .above = true, .below = true};

  /// Calls v(name, setting) for truths, names and lists of patterns, v(name, setting, range) for numbers, which may be
  /// optional, and v(name, setting, range, word) for one that has a value of no number: word's JSON stands for it.
  template <class Settings, class V>
    requires std::same_as<std::remove_const_t<Settings>, TrainSettings>
  static void visit(Settings& s, V&& v) {
    v("batch", s.batch, batch_range);
    v("accumulate", s.accumulate, accumulate_range);
    v("length", s.length, length_range);
    v("ttt_steps", s.ttt_steps, ttt_steps_range);
    v("lk", s.lk);
    v("lk_kl_scale", s.lk_kl_scale, TttLoss::kl_scale_range);
    v("lk_kl_decay", s.lk_kl_decay, TttLoss::kl_decay_range);
    v("fc_init", s.fc_init);
    v("packing", s.packing);
    v("sampling", s.sampling);
    v("anchors", s.anchors, anchors_range);
    v("gamma", s.gamma, gamma_range);
    v("variable_prefix", s.variable_prefix);
    v("prefix_base", s.prefix_base, positive);
    v("ce_alpha", s.ce_alpha, weight_range);
    v("l1_alpha", s.l1_alpha, weight_range);
    v("confidence_alpha", s.confidence_alpha, weight_range);
    v("markov_deviation", s.markov_deviation, positive);
    v("seed", s.seed, Range<std::uint64_t>{});
    WarmupCosine::visit(s.schedule, v);
    v("optimizer", s.optimizer_kind);
    AdamWOptions::visit(s.optimizer, v);
    MuonOptions::visit(s.muon, v);
    v("ema", s.ema, ema_range);
    v("freeze", s.freeze);
  }

  /// Refuses numbers out of range.
  /// \throws Error naming the setting
  void check() const {
    visit(*this, CheckRange{});
    if (packing == Packing::through_target) {
      throw Error("packing", "through_target",
                  "none or apart: Kimi K3's recurrent layers carry their state over a document's end");
    }
    if (sampling == WindowSampling::packed && packing != Packing::apart) {
      throw Error("sampling", "packed with packing none",
                  "packing apart: documents of one window do not see each other");
    }
    if (batch > max_rows / length) {
      throw Error("batch and length", fmt::format("{} windows of {}", batch, length),
                  fmt::format("at most {} tokens a step", max_rows));
    }
    if (accumulate > max_rows / rows()) {
      throw Error("accumulate", fmt::format("{} batches of {} tokens", accumulate, rows()),
                  fmt::format("at most {} tokens a step", max_rows));
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
