#pragma once
/// \file
/// From what was asked for to a run.
/// defines: conventions_of, layers_of, setup_of, check_freeze, run

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/finite.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/run/trainer.hpp>
#include <k3spec/target/load.hpp>

#include "../common/notes.hpp"
#include "default_layers.hpp"
#include "features.hpp"
#include "flags.hpp"
#include "place.hpp"
#include "training_run.hpp"

namespace k3spec::examples {

/// How a run's draft reads its target: a resumed run's own, or as asked for.
template <DraftKind Kind>
typename DraftForm<Kind>::Conventions conventions_of(const Job& job) {
  if (job.resumed) {
    const auto file = *job.resumed / draft_config_name;
    return io::draft_conventions<Kind>(io::read_json(file), file.string());
  }
  typename DraftForm<Kind>::Conventions conventions;
  conventions.aux_stream = job.options.aux_stream;
  conventions.layer_ids = job.options.layer_ids;
  return conventions;
}

/// The layers of a run that is resumed, or those asked for, else the type's own.
template <class Draft, class Conventions>
std::vector<index_t> layers_of(const Job& job, const Conventions& conventions) {
  if (job.resumed) {
    const auto file = *job.resumed / draft_config_name;
    return io::draft_layer_ids<Draft::kind, typename Draft::config>(io::read_json(file), file.string());
  }
  if (!job.options.layers.empty()) return job.options.layers;
  std::vector<index_t> layers =
      default_layers([] { return default_layers_of<typename Draft::config>(TargetConfig::num_hidden_layers); });
  for (index_t& layer : layers) layer = layer_id(layer, conventions.layer_ids);
  return layers;
}

/// How a loaded draft reads its target.
template <class Trainer, class Loaded>
typename Trainer::Setup setup_of(Loaded& draft) {
  if constexpr (Trainer::Draft::kind == DraftKind::eagle3) {
    return {std::move(draft.vocabulary), std::move(draft.layer_ids), draft.conventions};
  } else {
    return {std::move(draft.layer_ids), draft.conventions};
  }
}

/// Goes on from a checkpoint, if need be to another number of steps.
template <class Trainer>
void resume(const Job& job, Trainer& trainer) {
  const Options& o = job.options;
  trainer.resume(*job.resumed, o.other_data ? OtherData::take : OtherData::refuse);
  const WarmupCosine before = trainer.settings().schedule;
  if (!o.total_steps || *o.total_steps == before.total_steps) return;
  trainer.change_total_steps(*o.total_steps);
  const index_t next = trainer.next_step();
  fmt::print("{} steps instead of {}: after step {} the rate is {:.2e}, where it would have been {:.2e}\n",
             *o.total_steps, before.total_steps, next, trainer.settings().schedule(next), before(next));
}

/// Of a run that does not go on, patterns of tensors stand on the command line alone.
template <class Draft>
void check_freeze(const Options& o) {
  if (o.resume) return;
  try {
    frozen_slots<Draft>(o.settings.freeze);
  } catch (const Error& e) {
    throw UsageError("--freeze", e.found(), e.wanted());
  }
}

/// \param make_setup  (training data) -> the method's setup, of a run that does not begin with a draft
/// \returns the exit status
template <class Trainer, class F>
int run(const Job& job, F&& make_setup) {
  using Draft = typename Trainer::Draft;
  using T = typename Trainer::T;
  using Place = RunPlace<typename Trainer::D>;
  const Options& o = job.options;
  const TokenData &train = job.train, &heldout = job.heldout;
  check_freeze<Draft>(o);
  check_windows(train, o.settings, 1);
  check_windows(heldout, o.settings, o.settings.batch);
  for (const HeldoutSet& set : job.further) check_windows(set.data, o.settings, o.settings.batch);
  if constexpr (Trainer::Draft::kind != DraftKind::eagle3) {
    const std::string warning = mask_token_warning<typename Trainer::Draft::config>();
    if (!warning.empty()) say("warning: " + warning);
  }
  std::optional<LoadedDraft<Draft, T>> draft;
  if (job.init_from) {
    draft = load_draft<Draft, T>(*job.init_from);
    say_notes(draft->notes);
    require_finite<Draft>(draft->parameters.weights(), job.init_from->string());
  }
  auto setup = draft ? setup_of<Trainer>(*draft) : make_setup(train);
  // The target takes longest: what cannot be is said before.
  check_flags(o, [&] { Trainer::check(setup, o.settings); });
  const auto device = Place::make(o.device);  // the trainer refers to it
  Place::check(in_flags(o, "batch, length and accumulate"), run_bytes<Trainer>(o.settings, o.features.empty()));
  const auto data = DataFingerprints::of(job.cpu, train, heldout, o.settings.packing);
  if (job.resumed) {
    say_notes(io::ModelTensors::open(*job.resumed).notes());
    Trainer::check_resume(*job.resumed, setup, o.settings, data, o.other_data ? OtherData::take : OtherData::refuse);
  }
  const std::string layers = io::json(setup.layer_ids).dump();
  Trainer trainer = [&] {
    if (!o.features.empty()) {
      const auto features = open_features<T>(job, Trainer::taps(setup), data);
      return Trainer(device, features, std::move(setup), o.settings);
    }
    const TargetCheckpoint<TargetConfig, T> target(o.target, io::named({}), o.weights);
    say_notes(target.notes());
    return Trainer(device, target.weights(), std::move(setup), o.settings);
  }();
  trainer.set_data(data);
  if (job.resumed) resume(job, trainer);
  if (draft) trainer.start_from(std::move(draft->parameters));
  fmt::print("{}: {} trained parameters, target layers {}, {} of {} tokens, {:.0f} MB of activations\n", o.draft,
             trainable_count<Draft>, layers, Draft::draft_vocabulary, Draft::vocabulary,
             static_cast<double>(Trainer::activation_bytes(o.settings)) / 1e6);
  if (o.settings.ema) {
    fmt::print("ema {}: held-out text is measured with averaged weights, which are a checkpoint's draft\n",
               *o.settings.ema);
  }
  fmt::print("{}\n", Place::text(o.device));
  return Run<Trainer>(job, trainer, data.held_out)();
}

}  // namespace k3spec::examples
