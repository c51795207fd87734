#pragma once
/// \file
/// A run that has features instead of a target.
/// defines: take_windows, open_features

#include <algorithm>
#include <string>
#include <vector>

#include <k3spec/batches/stored_features.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/text_cutter.hpp>
#include <k3spec/target/load.hpp>

#include "../common/notes.hpp"
#include "options.hpp"

namespace k3spec::examples {

/// A new run's windows are the features' own, unless flags say otherwise, which is refused later.
/// \throws Error on features that are not whole
inline void take_windows(Options& o) {
  const FeatureManifest manifest = FeatureManifest::read(o.features);
  manifest.require_whole(o.features);
  if (o.resume) return;
  const FeaturePlan& plan = manifest.plan();
  const auto take = [&](const char* key, auto& value, auto own) {
    if (o.flags.at(key)->count() == 0) value = own;
  };
  take("length", o.settings.length, plan.length), take("packing", o.settings.packing, plan.packing);
  take("sampling", o.settings.sampling, plan.sampling);
}

/// Opens the features of a run whose target's states are `taps`.
/// \throws Error naming the file and the field in which they are others than the run wants
template <class T>
StoredFeatures<TargetConfig, T> open_features(const Job& job, const std::vector<Tap>& taps,
                                              const DataFingerprints& data) {
  const Options& o = job.options;
  const std::string file = (o.features / FeatureFiles::json).string();
  const FeatureManifest manifest = FeatureManifest::read(o.features);
  const FeaturePlan& plan = manifest.plan();
  plan.check_taps(taps, file);
  if (o.settings.sampling == WindowSampling::random) {
    throw Error("--sampling", "random with --features: pieces at any place were not captured",
                std::string(names_of<WindowSampling>[static_cast<std::size_t>(plan.sampling)]) + ", as in " + file);
  }
  plan.check_windows(o.settings.length, o.settings.packing, file);
  plan.check_sampling(o.settings.sampling, file);
  plan.check_tokens(data.training, data.held_out, file);
  const index_t looks = TextCutter(o.settings).evaluations(job.heldout, o.eval_batches());
  plan.check_held_out(looks * o.settings.batch, file);
  if (!o.target.empty()) {
    const TargetCheckpoint<TargetConfig, T> target(o.target);
    say_notes(target.notes());
    plan.check_target(host_fingerprint<K3Target<TargetConfig>>(job.cpu, target.weights()), file);
  }
  StoredFeatures<TargetConfig, T> stored(job.cpu, o.features);
  say_notes(stored.notes());
  if (stored.rounded()) {
    say(fmt::format("features: states in {}, rounded: not the bits of a run beside the target", name(plan.dtype)));
  }
  return stored;
}

}  // namespace k3spec::examples
