#pragma once
/// \file
/// Captures of a small target.
/// defines: test::FeatureText, test::feature_settings, test::feature_plan, test::capture

#include <string>
#include <vector>

#include <k3spec/io/target_config.hpp>
#include <k3spec/run/capture.hpp>
#include <k3spec/run/run_sources.hpp>

#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"

namespace k3spec::test {

inline TrainSettings feature_settings(Packing packing, WindowSampling sampling) {
  TrainSettings s;
  s.batch = 3, s.accumulate = 2, s.length = 7, s.packing = packing, s.sampling = sampling;
  s.ttt_steps = 2, s.anchors = 3, s.seed = 11;
  s.schedule = {.lr = 1e-2, .warmup_steps = 2, .total_steps = 20, .min_lr_ratio = 0.1};
  return s;
}

/// Tokens in documents of several lengths, some of them not to be learnt.
struct FeatureText : TemporaryDirectory {
  FeatureText() {
    std::string train, heldout;
    for (int i = 0; i < 17; ++i) train += line(i, 1 + i * i % 9);
    for (int i = 0; i < 6; ++i) heldout += line(i + 30, 3 + i);
    write(*this / "train.jsonl", train), write(*this / "heldout.jsonl", heldout);
  }
  TokenData train() const { return TokenData(*this / "train.jsonl", SmallTarget::vocab_size); }
  TokenData heldout() const { return TokenData(*this / "heldout.jsonl", SmallTarget::vocab_size); }

 private:
  static std::string line(int seed, int tokens) {
    std::string ids, mask;
    for (int t = 0; t < tokens; ++t) {
      ids += (t == 0 ? "" : ",") + std::to_string((seed * 7 + t * t * 3) % 47);
      mask += (t == 0 ? "" : ",") + std::to_string((seed + t) % 4 == 0 ? 0 : 1);
    }
    return "{\"input_ids\":[" + ids + "],\"loss_mask\":[" + mask + "]}\n";
  }
};

/// Of states that are kept as they are. \tparam T  the target's
template <Element T = float>
FeaturePlan feature_plan(const FeatureText& text, const std::vector<Tap>& taps, const TrainSettings& s,
                         index_t shard = 4) {
  const TokenData train = text.train(), heldout = text.heldout();
  FeaturePlan p;
  const auto target = small_target<T>();
  p.dtype = dtype_of<T>;
  p.target = io::target_config_json<complete_target_t<SmallTarget>>(dtype_of<T>);
  p.target_fingerprint = host_fingerprint<K3Target<SmallTarget>>(Cpu{1}, target.weights());
  p.taps = taps, p.layers = {1, 2, 4};
  p.length = s.length, p.packing = s.packing, p.sampling = s.sampling, p.shard_windows = shard;
  const auto data = DataFingerprints::of(Cpu{1}, train, heldout, s.packing);
  p.training = data.training, p.held_out = data.held_out;
  p.training_windows = windows_of(train, s), p.held_out_windows = windows_of(heldout, s);
  return p;
}

/// \param most  shards to make
template <Element T = float>
bool capture(const FeatureText& text, const FeaturePlan& p, const std::filesystem::path& folder, index_t batch = 2,
             index_t most = 1000) {
  TargetStates<SmallTarget, T> states(small_target<T>(), p.taps, {batch, p.length, p.packing});
  FeatureCapture<SmallTarget, T> work(Cpu{1}, CaptureFolder(folder), p, batch);
  return work.run(states, text.train(), text.heldout(), [&](index_t shards, index_t) { return shards < most; });
}

}  // namespace k3spec::test
