#pragma once
/// \file
/// The loss of the unrolled EAGLE-3 draft, Σ 0.8ᵏ Lₖ / Σ 0.8ᵏ over its steps k, and which one each step has: soft
/// cross-entropy (CE), or one of the LK losses, which are made of α = Σ_v min(p_v, q_v), the probability that a drafted
/// token is accepted. ᾱ is α's mean over the supervised predictions of a step.
/// ```text
/// alpha   -mean log α, where α = 0 counts as nothing
/// lambda  w · CE + (1 - w)(1 - ᾱ), w = kl_scale · exp(-kl_decay · ᾱ) without gradient
/// ```
/// defines: LkLoss, TttLoss, ttt_decay, ttt_step_weight

#include <algorithm>
#include <cmath>
#include <limits>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/backend/row_adjoint.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/losses/lk_loss.hpp>

namespace K3SPEC_NAMESPACE {

/// The losses made of the acceptance rate (losses/lk_loss.hpp).
enum class LkLoss { none, alpha, lambda };
template <>
inline constexpr std::array<std::string_view, 3> names_of<LkLoss>{"none", "alpha", "lambda"};

/// Weight of a TTT step's loss relative to that of the step before.
inline constexpr double ttt_decay = 0.8;

/// Weight of step k of `steps`; all together weigh 1.
constexpr double ttt_step_weight(index_t k, index_t steps) {
  double all = 0, mine = 0, weight = 1;
  for (index_t i = 0; i < steps; ++i, weight *= ttt_decay) {
    all += weight;
    if (i == k) mine = weight;
  }
  return mine / all;
}

/// Which loss EAGLE-3's steps have.
struct TttLoss {
  LkLoss lk = LkLoss::none;
  double kl_scale = 1, kl_decay = 3;  ///< lambda's
  bool operator==(const TttLoss&) const = default;

  static constexpr Range<double> kl_scale_range{0, 1}, kl_decay_range{.least = 0};

  /// Refuses numbers out of range.
  /// \throws Error naming the option that is out of range
  void check() const {
    kl_scale_range.check("lk_kl_scale", kl_scale);
    kl_decay_range.check("lk_kl_decay", kl_decay);
  }

  /// w
  double weight(double mean_alpha) const { return kl_scale * std::exp(-kl_decay * mean_alpha); }
  /// A step's loss from the means of row_losses' and row_alphas' results over `supervised` predictions.
  double of_step(double mean_loss, double mean_alpha, index_t supervised) const {
    if (lk != LkLoss::lambda || supervised == 0) return mean_loss;
    const double w = weight(mean_alpha);
    return w * mean_loss + (1 - w) * (1 - mean_alpha);
  }

  // Each throws Error on other shapes.

  /// logits, p [n, vocabulary] -> alphas [n]
  template <Device D, AnyView Q, AnyView P, class S>
  static void row_alphas(const D& device, const Q& logits, const P& p, Vector<S> alphas) {
    require_shape("TttLoss: p", p, logits.extent(0), logits.row_size());
    require_rows("TttLoss: alphas", alphas, logits.extent(0));
    evaluate_rows(device, acceptance_rate_formula(), alphas, logits, p);
  }

  /// logits, p [n, vocabulary] -> losses [n]: CE. Those of lk alpha are made of alphas alone: of_acceptance.
  template <Device D, AnyView Q, AnyView P, class S>
  static void row_losses(const D& device, const Q& logits, const P& p, Vector<S> losses) {
    require_shape("TttLoss: p", p, logits.extent(0), logits.row_size());
    require_rows("TttLoss: losses", losses, logits.extent(0));
    evaluate_rows(device, soft_cross_entropy_formula(), losses, logits, p);
  }

  /// -log α, and 0 of 0.
  template <class S>
  static S of_acceptance(S alpha) {
    return alpha > 0 ? -std::log(std::max(alpha, std::numeric_limits<S>::min())) : S(0);
  }

  /// d loss / d (a row of what row_gradients differentiates), for a prediction that weighs `weight` in the loss.
  RowAdjoint row_adjoint(double weight) const { return {weight, lk == LkLoss::alpha}; }
  template <class S>
  S row_adjoint(double weight, S alpha) const {
    return row_adjoint(weight)(alpha);
  }

  /// d_logits from d_rows [n] of row_adjoint. \param mean_alpha  of the step, which lambda alone reads
  template <Device D, AnyView Q, AnyView P, class S, AnyView DX>
  void row_gradients(const D& device, const Q& logits, const P& p, double mean_alpha, Vector<const S> d_rows,
                     const DX& d_logits, arena_t<D>& scratch) const {
    require_shape("TttLoss: p", p, logits.extent(0), logits.row_size());
    require_rows("TttLoss: d_rows", d_rows, logits.extent(0));
    require_shape("TttLoss: d_logits", d_logits, logits.extent(0), logits.row_size());
    const auto through = [&](const auto& formula) {
      differentiate_rows(device, formula, d_rows, gradients(overwrite(d_logits), no_gradient), scratch, logits, p);
    };
    if (lk == LkLoss::none) through(soft_cross_entropy_formula());
    if (lk == LkLoss::alpha) through(acceptance_rate_formula());
    if (lk == LkLoss::lambda) through(lk_lambda_gradient_formula(weight(mean_alpha)));
  }

  /// Bytes of row_gradients' scratch.
  template <class S>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    return std::max({differentiate_scratch<decltype(soft_cross_entropy_formula()), S>(rows),
                     differentiate_scratch<decltype(acceptance_rate_formula()), S>(rows),
                     differentiate_scratch<decltype(lk_lambda_gradient_formula(0)), S>(rows)});
  }
};

}  // namespace K3SPEC_NAMESPACE
