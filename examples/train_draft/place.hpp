#pragma once
/// \file
/// Where the draft of a run is, and whether the run has room there.
/// defines: RunBytes, run_bytes, RunPlace

#include <cstdint>
#include <string>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/optimiser/adamw.hpp>
#include <k3spec/optimiser/ema.hpp>
#include <k3spec/optimiser/muon.hpp>
#include <k3spec/run/train_settings.hpp>

#include "../common/compiled_in.hpp"
#include "../common/memory.hpp"
#include "../common/program.hpp"

namespace k3spec::examples {

/// Bytes that a run holds at once, but for its data and the features that it may have instead of a target.
struct RunBytes {
  std::uint64_t target = 0;  ///< with its states
  std::uint64_t draft = 0;   ///< with its activations, gradients and moments
};

template <class Trainer>
RunBytes run_bytes(const TrainSettings& s, bool target) {
  using Draft = typename Trainer::Draft;
  using T = typename Trainer::T;
  using D = typename Trainer::D;
  using States = TargetStates<TargetConfig, T>;
  const StatesSize size{s.batch, s.length, s.packing};
  const std::uint64_t all_states = States::bytes(size, 1), states = States::bytes(size, 1, false);
  RunBytes bytes;
  if (target) {
    bytes.target = sizeof(T) * static_cast<std::uint64_t>(parameter_count<K3Target<TargetConfig>>) +
                   TargetState<TargetConfig, T>::bytes({s.batch, s.length, 0});
  }
  const std::uint64_t idle = runs_targets<D> && !target ? all_states - states : 0;
  bytes.draft = Trainer::activation_bytes(s) - idle + sizeof(T) * static_cast<std::uint64_t>(parameter_count<Draft>) +
                sizeof(accumulate_t<T>) * static_cast<std::uint64_t>(trainable_count<Draft>) +
                AdamW<Draft, T, D>::bytes() + (s.used_muon() ? Muon<Draft, T, D>::bytes() : 0) +
                (s.ema ? Ema<Draft, T, D>::bytes() : 0);
  if (target && !runs_targets<D>) bytes.target += all_states;  // here, and a draft's own on the card
  return bytes;
}

/// How a run's device is made, what is said of it, and what there is room for. Of a card, in cuda.hpp.
template <class D>
struct RunPlace;

template <>
struct RunPlace<Cpu> {
  static Cpu make(const DeviceOptions& options) { return {options.threads}; }
  static std::string text(const DeviceOptions& options) { return device_text(options); }
  /// \throws Error when there is less memory than that, naming what makes it so much
  static void check(const std::string& subject, const RunBytes& bytes) {
    check_memory(subject, bytes.target + bytes.draft);
  }
};

}  // namespace k3spec::examples
