#pragma once
/// \file
/// A draft while it is trained: its parameters, their gradients and its optimizer, in a device's memory. What is saved
/// comes from there, and what is loaded goes there.
/// defines: TrainedDraft

#include <concepts>
#include <filesystem>
#include <optional>
#include <utility>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/ops/copy.hpp>
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
  }

  /// Takes other parameters, with moments that are zero.
  /// \throws Error when one is not finite
  void replace(const D& device, Parameters<Draft, T> parameters) {
    require_finite<Draft>(parameters.weights(), "draft");
    parameters_ = to_device(device, std::move(parameters));
    optimizer_ = Optimizer(device, optimizer_.options(), parameters_, optimizer_.frozen());  // masters: the parameters
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
    if (muon_) return muon_->step(device, lr, optimizer_, parameters_, gradients_);
    return optimizer_.step(device, lr, parameters_, gradients_);
  }

  /// Calls save(parameters, optimizer) with both on the host.
  /// \throws Error, with nothing saved, when a parameter or a moment is not finite
  template <class F>
  void save(const D& device, F&& save) {
    const auto& parameters = on_host(device, parameters_);
    auto&& optimizer = on_host(device, optimizer_, parameters);
    require_finite<Draft>(parameters.weights(), "draft");
    detail::for_optimizer_state(optimizer, [](const char* part, auto views) { require_finite<Draft>(views, part); });
    save(parameters, optimizer);
  }

  /// Takes a checkpoint's parameters, moments, masters and counts.
  /// \throws Error, with all as it was, when the files do not fit, or a number in them is not finite
  void load(const D& device, const std::filesystem::path& directory) {
    Parameters<Draft, T> loaded;
    load_draft(directory, loaded);
    require_finite<Draft>(loaded.weights(), (directory / io::ModelTensors::single_name).string());
    if constexpr (std::same_as<D, Cpu>) {
      load_trainer(directory, optimizer_);
    } else {
      AdamW<Draft, T> host(optimizer_.options(), loaded);
      load_trainer(directory, host);
      to_device(device, host, optimizer_);
    }
    parameters_ = to_device(device, std::move(loaded));
  }

  const Parameters<Draft, T, D>& parameters() const { return parameters_; }
  Gradients<Draft, T, D>& gradients() { return gradients_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  Parameters<Draft, T, D> parameters_;
  Gradients<Draft, T, D> gradients_;
  Optimizer optimizer_;
  std::optional<Muon<Draft, T, D>> muon_;
};

}  // namespace K3SPEC_NAMESPACE
