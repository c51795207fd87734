#pragma once
/// \file
/// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) with the global norm of the gradient
/// clipped before, over all of a model's trained parameters in one pass:
/// ```text
/// g ← c g                     c = min(1, max_grad_norm / (‖g‖ + 1e-6))
/// m ← β₁ m + (1 - β₁) g       v ← β₂ v + (1 - β₂) g²
/// w ← (1 - lr·decay) w - lr/(1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
/// ```
/// Only matrices decay (parameters of two axes or more): never norms, biases or other vectors. Tensors may be frozen:
/// they keep their bits, their moments stay 0, and ‖g‖ is that of the others. m, v and, for bfloat16,
/// the float32 master weights are one buffer each, with the offsets of Parameters.
/// defines: AdamWOptions, adamw_formulas, AdamW

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/optimiser/frozen_tensors.hpp>
#include <k3spec/optimiser/gradient_norm.hpp>

namespace K3SPEC_NAMESPACE {

/// AdamW's numbers, see adamw_formulas.
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.0;
  double max_grad_norm = 0.5;
  /// Steps in a row that may be skipped because the gradient is not finite; one more throws.
  std::int64_t max_skipped_in_a_row = 20;

  /// What each may be.
  static constexpr Range<double> beta_range{.least = 0, .most = 1, .below = true}, eps_range{.least = 0, .above = true};
  static constexpr Range<double> weight_decay_range{.least = 0};
  static constexpr Range<double> max_grad_norm_range{
      .least = 0, .most = std::numeric_limits<double>::infinity(), .above = true, .meaning = "infinity never clips"};

  /// Calls v(name, option, range) for each.
  template <class Options, class V>
  static void visit(Options& o, V&& v) {
    v("beta1", o.beta1, beta_range);
    v("beta2", o.beta2, beta_range);
    v("eps", o.eps, eps_range);
    v("weight_decay", o.weight_decay, weight_decay_range);
    v("max_grad_norm", o.max_grad_norm, max_grad_norm_range);
    v("max_skipped_in_a_row", o.max_skipped_in_a_row, Range<std::int64_t>{0});
  }

  /// Refuses numbers out of range.
  /// \throws Error naming the option
  void check() const { visit(*this, CheckRange{"AdamW: "}); }
};

/// The new m, v and w of step `step` (the first is 1). Operands: gradient, m, v, w, and one number for each row: 1
/// where the weights decay, 0 where not.
inline auto adamw_formulas(const AdamWOptions& o, double lr, double clip, std::int64_t step) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(o.beta1, t), correction2 = 1 - std::pow(o.beta2, t);
  const auto g = clip * expr::arg<0>;
  const auto m = expr::arg<1>;
  const auto v = expr::arg<2>;
  const auto w = expr::arg<3>;
  const auto new_m = o.beta1 * m + (1 - o.beta1) * g;
  const auto new_v = o.beta2 * v + (1 - o.beta2) * (g * g);
  const auto decayed = (1.0 - lr * o.weight_decay * expr::row<4>)*w;
  const auto new_w = decayed - lr / correction1 * (new_m / (sqrt(new_v) / std::sqrt(correction2) + o.eps));
  return formulas(new_m, new_v, new_w);
}

/// The optimizer of a model's trained parameters.
template <class Model, Element T, Device D = Cpu>
class AdamW {
 public:
  using State = accumulate_t<T>;
  using E = element_t<D, State>;
  /// float and double parameters are their own masters.
  static constexpr bool has_masters = !std::same_as<T, State>;
  template <class U>
  using Weights = typename Model::template Weights<U>;

  /// What a step did.
  struct Report {
    double grad_norm;  ///< before clipping
    bool skipped;      ///< the gradient was not finite: nothing changed
  };

  /// Moments are zero; masters are the parameters as they are now.
  /// \param frozen  where the tensors are that stay as they are
  /// \throws Error on an option out of range
  AdamW(const D& device, const AdamWOptions& options, const Parameters<Model, T, D>& parameters,
        std::vector<SlotRange> frozen = {})
      : options_(options),
        frozen_(std::move(frozen)),
        first_(device, slots),
        second_(device, slots),
        masters_(device, has_masters ? slots : 0),
        row_decays_(device, rows),
        norm_(device, slots) {
    options_.check();
    mark_matrices(device);
    if constexpr (has_masters) copy(device, table(parameters.trainable().data()), table(masters_.data()));
  }
  AdamW(const AdamWOptions& options, const Parameters<Model, T>& parameters,
        std::vector<SlotRange> frozen = {}) requires std::same_as<D, Cpu>
      : AdamW(Cpu{}, options, parameters, std::move(frozen)) {}

  /// One update of the parameters. With a gradient that is not finite nothing changes but the counts of skipped steps.
  /// \throws Error, with nothing counted, when too many steps in a row were skipped
  Report step(const D& device, double lr, Parameters<Model, T, D>& parameters, Gradients<Model, T, D>& gradients) {
    const Report report = begin(device, gradients);
    if (!report.skipped) update(device, lr, report.grad_norm, parameters, gradients, 0, slots);
    return report;
  }

  // ---- A step in parts, where something else moves some of the matrices (optimiser/muon.hpp)

  /// Begins a step: its gradient's norm, and the counts. Frozen tensors' gradients are 0 then.
  /// \throws Error as step does
  Report begin(const D& device, Gradients<Model, T, D>& gradients) {
    for (const auto& [first, last] : frozen_) {
      zero(device, part(gradients.flat().data(), first / width, (last - first) / width));
    }
    const double norm = norm_(device, gradients.flat());
    const bool skipped = !std::isfinite(norm);
    if (skipped) {
      skip();
    } else {
      skipped_in_a_row_ = 0;
      ++steps_;
    }
    return {norm, skipped};
  }

  /// What a step that began with this norm does to elements [first, last) of the trained parameters' buffer, whole
  /// tensors with their padding.
  void update(const D& device, double lr, double norm, Parameters<Model, T, D>& parameters,
              Gradients<Model, T, D>& gradients, index_t first, index_t last) {
    const index_t begin = first / width, count = (last - first) / width;
    if (count == 0) return;
    const auto formula = adamw_formulas(options_, lr, clip_coefficient(norm, options_.max_grad_norm), steps_);
    const auto g = part(gradients.flat().data(), begin, count);
    const auto m = part(first_.data(), begin, count), v = part(second_.data(), begin, count);
    const auto stored = part(parameters.trainable().data(), begin, count);
    const Vector<E> decays(row_decays_.data() + begin, count);
    if constexpr (has_masters) {
      const auto w = part(masters_.data(), begin, count);
      const auto all = std::tuple_cat(formula, formulas(std::get<2>(formula)));
      evaluate(device, all, outputs(m, v, w, stored), g, m, v, w, decays);
    } else {
      evaluate(device, formula, outputs(m, v, stored), g, m, v, stored, decays);
    }
  }

  /// First moments and masters, with the offsets of Parameters::trainable.
  E* first_moments_data() { return first_.data(); }
  E* masters_data() requires has_masters { return masters_.data(); }

  const AdamWOptions& options() const { return options_; }
  const std::vector<SlotRange>& frozen() const { return frozen_; }
  /// Updates made, not counting those skipped.
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  /// The state in the device's memory, by the parameters' names; views of frozen parameters are null. Masters only for
  /// bfloat16.
  Weights<E> first_moments() { return bind_weights<Model, E>(first_.data(), nullptr); }
  Weights<E> second_moments() { return bind_weights<Model, E>(second_.data(), nullptr); }
  Weights<E> masters() requires has_masters { return bind_weights<Model, E>(masters_.data(), nullptr); }
  /// All of it, to be copied and nothing else.
  auto state() {
    const auto all = [](auto& buffer) { return Vector<E>(buffer.data(), buffer.size()); };
    if constexpr (has_masters) {
      return std::array{all(first_), all(second_), all(masters_)};
    } else {
      return std::array{all(first_), all(second_)};
    }
  }
  void restore_counts(std::int64_t steps, std::int64_t skipped, std::int64_t skipped_in_a_row) {
    steps_ = steps;
    skipped_ = skipped;
    skipped_in_a_row_ = skipped_in_a_row;
  }

  /// Bytes of moments and masters.
  static constexpr std::size_t bytes() {
    return static_cast<std::size_t>(slots) * sizeof(State) * (has_masters ? 3U : 2U);
  }

 private:
  static constexpr index_t slots = trainable_slots<Model>;
  /// Every tensor starts at a multiple of so many elements: in a table of this width no row has parts of two tensors.
  static constexpr index_t width = detail::slot_multiple;
  static constexpr index_t rows = slots / width;

  template <class U>
  static Rows<U, width> part(U* p, index_t begin, index_t count) {
    return Rows<U, width>(p + begin * width, count);
  }
  template <class U>
  static Rows<U, width> table(U* p) {
    return part(p, 0, rows);
  }

  void mark_matrices(const D& device) {
    Buffer<State> decays(rows);
    const auto w = first_moments();
    Model::visit(w, Path{}, [&](const Path&, const auto& view, auto) {
      if (view.data() == nullptr) return;
      const index_t begin = (view.data() - first_.data()) / width, count = detail::slot(view.size()) / width;
      constexpr bool is_matrix = std::remove_cvref_t<decltype(view)>::rank >= 2;
      std::fill_n(decays.data() + begin, count, State{is_matrix});
    });
    for (const auto& [first, last] : frozen_) {
      std::fill_n(decays.data() + first / width, (last - first) / width, State{0});
    }
    upload<State>(device, Vector<State>(decays.data(), rows), Vector<E>(row_decays_.data(), rows));
  }

  void skip() {
    if (skipped_in_a_row_ >= options_.max_skipped_in_a_row) {
      throw Error("gradient", fmt::format("no finite norm in {} steps in a row", skipped_in_a_row_ + 1),
                  fmt::format("at most {}", options_.max_skipped_in_a_row));
    }
    ++skipped_;
    ++skipped_in_a_row_;
  }

  AdamWOptions options_;
  std::vector<SlotRange> frozen_;
  buffer_t<D, State> first_, second_, masters_, row_decays_;
  GradientNorm<D> norm_;
  std::int64_t steps_ = 0, skipped_ = 0, skipped_in_a_row_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
