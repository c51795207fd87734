#pragma once
/// \file
/// An exponential moving average (EMA) of a model's trained parameters. After update t of them, the first is 1:
/// ```text
/// e ← e - (1 - dₜ) (e - w)        dₜ = min(decay, (1 + t) / (10 + t))
/// ```
/// which begins as the parameters before the first update. The warm-up of the decay, without which a short run's
/// average would be its beginning, is that of tf.train.ExponentialMovingAverage with num_updates (and of diffusers'
/// EMAModel, which counts from the second update on); once it is over, from t = (10·decay - 1) / (1 - decay) on, this
/// is torch.optim.swa_utils.get_ema_multi_avg_fn(decay). e is in the type that gradients add up in, float at least; for
/// bfloat16 parameters w are their float masters, and e is rounded where it is used. Tensors that do not move keep
/// their bits in it.
/// defines: ema_decay, Ema

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/optimiser/adamw.hpp>

namespace K3SPEC_NAMESPACE {

/// What update `update`, of which the first is 1, leaves of the average: dₜ.
inline double ema_decay(double decay, std::int64_t update) {
  const auto t = static_cast<double>(update);
  return std::min(decay, (1 + t) / (10 + t));
}

/// The average, in a device's memory.
template <class Model, Element T, Device D = Cpu>
class Ema {
 public:
  using Optimizer = AdamW<Model, T, D>;
  using State = typename Optimizer::State;
  using E = element_t<D, State>;
  /// Whether the average is rounded where it is used.
  static constexpr bool rounds = Optimizer::has_masters;
  template <class U>
  using Weights = typename Model::template Weights<U>;

  /// The parameters as they are now.
  Ema(const D& device, double decay, const Parameters<Model, T, D>& parameters)
      : decay_(decay), average_(device, slots), rounded_(device, rounds ? slots : 0) {
    copy(device, table(parameters.trainable().data()), table(average_.data()));
    round(device);
  }

  Ema(double decay, const Parameters<Model, T>& parameters) requires std::same_as<D, Cpu>
      : Ema(Cpu{}, decay, parameters) {}

  /// Takes the parameters in, after an update that was not skipped.
  /// \param optimizer  which counts it, and has the masters
  void update(const D& device, Optimizer& optimizer, const Parameters<Model, T, D>& parameters) {
    const double d = ema_decay(decay_, optimizer.steps());
    const auto e = expr::arg<0> - (1 - d) * (expr::arg<0> - expr::arg<1>);
    const auto average = table(average_.data());
    if constexpr (rounds) {
      evaluate(device, formulas(e, e), outputs(average, table(rounded_.data())), average,
               table(optimizer.masters_data()));
    } else {
      evaluate(device, e, average, average, table(parameters.trainable().data()));
    }
  }

  /// The average as parameters: what is never trained is that of `parameters`, which must outlive it.
  Weights<const element_t<D, T>> weights(const Parameters<Model, T, D>& parameters) const {
    return bind_weights<Model, const element_t<D, T>>(rounded(), parameters.all().data() + slots);
  }

  double decay() const { return decay_; }

  /// The average with the offsets of Parameters::trainable, not rounded, to be copied. Who writes it calls `round`
  /// then.
  Vector<E> state() { return Vector<E>(average_.data(), slots); }
  /// The same by the parameters' names; views of what is never trained are null.
  Weights<E> averages() { return bind_weights<Model, E>(average_.data(), nullptr); }
  void round(const D& device) {
    if constexpr (rounds) copy(device, table(average_.data()), table(rounded_.data()));
  }

  void round() requires std::same_as<D, Cpu> { round(Cpu{}); }
  /// Parameters that have masters, from these.
  static void from_masters(Optimizer& optimizer, Parameters<Model, T>& parameters) requires std::same_as<D, Cpu> {
    if constexpr (rounds) copy(Cpu{}, table(optimizer.masters_data()), table(parameters.trainable().data()));
  }

  /// Bytes of it.
  static constexpr std::size_t bytes() {
    return static_cast<std::size_t>(slots) * (sizeof(State) + (rounds ? sizeof(T) : 0));
  }

 private:
  static constexpr index_t slots = trainable_slots<Model>, width = detail::slot_multiple;

  template <class U>
  static Rows<U, width> table(U* p) {
    return Rows<U, width>(p, slots / width);
  }
  const element_t<D, T>* rounded() const {
    if constexpr (rounds) {
      return rounded_.data();
    } else {
      return average_.data();
    }
  }

  double decay_;
  buffer_t<D, State> average_;
  buffer_t<D, T> rounded_;
};

}  // namespace K3SPEC_NAMESPACE
