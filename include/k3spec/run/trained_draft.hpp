#pragma once
/// \file
/// A draft while it is trained: its parameters, their gradients, its optimizer and, where there is one, an average of
/// the parameters, in a device's memory. What is saved comes from there, and what is loaded goes there.
/// defines: TrainedDraft

#include <concepts>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/optimiser/ema.hpp>
#include <k3spec/optimiser/muon.hpp>
#include <k3spec/run/host_copies.hpp>
#include <k3spec/run/train_settings.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// What training moves of a draft.
template <class Draft, Element T, Device D = Cpu>
class TrainedDraft {
 public:
  using Optimizer = AdamW<Draft, T, D>;

  /// A draft before its first step.
  /// \throws Error on an option of the optimizer's out of range, and as frozen_slots does
  TrainedDraft(const D& device, const TrainSettings& settings, Parameters<Draft, T> parameters)
      : parameters_(to_device(device, std::move(parameters))),
        gradients_(device),
        optimizer_(device, settings.optimizer, parameters_, frozen_slots<Draft>(settings.freeze)) {
    if (const auto muon = settings.used_muon()) muon_.emplace(device, *muon, optimizer_.frozen());
    if (settings.ema) average_.emplace(device, *settings.ema, parameters_);
  }

  /// Takes other parameters, with moments that are zero, and an average that begins.
  /// \throws Error when one is not finite
  void replace(const D& device, Parameters<Draft, T> parameters) {
    require_finite<Draft>(parameters.weights(), "draft");
    parameters_ = to_device(device, std::move(parameters));
    optimizer_ = Optimizer(device, optimizer_.options(), parameters_, optimizer_.frozen());  // masters: the parameters
    if (average_) average_ = Average(device, average_->decay(), parameters_);
  }

  /// Gradients of nothing.
  void zero_gradients(const D& device) {
    const auto g = gradients_.flat();
    constexpr index_t width = detail::slot_multiple;
    using Gradient = typename std::remove_cvref_t<decltype(g)>::element_type;
    zero(device, Rows<Gradient, width>(g.data(), g.size() / width));
  }

  /// One update of the parameters by the gradients, which are of no use after it.
  /// \throws Error when too many steps in a row were skipped
  typename Optimizer::Report update(const D& device, double lr) {
    const auto report = muon_ ? muon_->step(device, lr, optimizer_, parameters_, gradients_)
                              : optimizer_.step(device, lr, parameters_, gradients_);
    if (average_ && !report.skipped) average_->update(device, optimizer_, parameters_);
    return report;
  }

  /// Calls save(weights, optimizer, tensors) with all of it on the host: the draft's weights as `weights` has them, the
  /// optimizer, and what is to be written beside its state.
  /// \throws Error, with nothing saved, when a parameter, an average or a moment is not finite
  template <class F>
  void save(const D& device, F&& save) {
    const auto& parameters = on_host(device, parameters_);
    auto&& optimizer = on_host(device, optimizer_, parameters);
    auto&& average = on_host(device, average_, parameters);
    require_finite<Draft>(parameters.weights(), "draft");
    detail::for_optimizer_state(optimizer, [](const char* part, auto views) { require_finite<Draft>(views, part); });
    if (!average) return save(parameters.weights(), optimizer, std::vector<io::TensorSource>());
    require_finite<Draft>(average->averages(), "average");
    save(average->weights(parameters), optimizer, ema_sources(parameters, *average));
  }

  /// Takes a checkpoint's parameters, average, moments, masters and counts.
  /// \throws Error, with all as it was, when the files do not fit, or a number in them is not finite
  void load(const D& device, const std::filesystem::path& directory) {
    Parameters<Draft, T> loaded;
    load_draft(directory, loaded);
    require_finite<Draft>(loaded.weights(), (directory / io::ModelTensors::single_name).string());
    std::optional<Ema<Draft, T>> average;
    if (average_) average.emplace(average_->decay(), loaded);  // what the file has
    if constexpr (std::same_as<D, Cpu>) {
      load_state(directory, optimizer_, loaded, average);
      if (average) average_ = std::move(average);
    } else {
      AdamW<Draft, T> host(optimizer_.options(), loaded);
      load_state(directory, host, loaded, average);
      to_device(device, host, optimizer_);
      if (average) to_device(device, *average, *average_);
    }
    parameters_ = to_device(device, std::move(loaded));
  }

  const Parameters<Draft, T, D>& parameters() const { return parameters_; }
  /// What the draft is to be measured and saved with: the average where there is one, else the parameters.
  auto weights() const { return average_ ? average_->weights(parameters_) : parameters_.weights(); }
  Gradients<Draft, T, D>& gradients() { return gradients_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  using Average = Ema<Draft, T, D>;

  /// What trainer.safetensors has. The parameters are not model.safetensors' where that is their average.
  static void load_state(const std::filesystem::path& directory, AdamW<Draft, T>& optimizer,
                         Parameters<Draft, T>& parameters, std::optional<Ema<Draft, T>>& average) {
    if (!average) return load_trainer(directory, optimizer);
    load_trainer(directory, optimizer, ema_slots(parameters, *average));
    average->round();
    Ema<Draft, T>::from_masters(optimizer, parameters);
  }

  Parameters<Draft, T, D> parameters_;
  Gradients<Draft, T, D> gradients_;
  Optimizer optimizer_;
  std::optional<Muon<Draft, T, D>> muon_;
  std::optional<Average> average_;
};

}  // namespace K3SPEC_NAMESPACE
