#pragma once
/// \file
/// What the EAGLE-3 objective gives back.
/// defines: TttResult, count_chains, TttTotals

#include <algorithm>
#include <array>
#include <string>

#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// Of one batch. Losses are means over its own supervised positions, all else are sums and counts.
struct TttResult {
  static constexpr auto max_steps = static_cast<std::size_t>(max_ttt_steps);
  double loss = 0;
  std::array<double, max_steps> step_losses{};
  /// What these are made of, summed over the supervised predictions: TttStepSums' loss and alpha.
  std::array<double, max_steps> step_loss_sums{}, step_alpha_sums{};
  /// Mean acceptance rate Σ_v min(p_v, q_v) of the supervised predictions; 0 unless an LK loss made it.
  std::array<double, max_steps> step_alphas{};
  /// Supervised predictions, and those of them that are the teacher's choice: per step, and over all steps.
  std::array<index_t, max_steps> step_supervised{}, step_correct{};
  index_t supervised = 0, correct = 0;
  /// Chains of k + 1 right tokens, and chains that could have been.
  std::array<index_t, max_steps> step_prefix_hits{}, step_chains{};

  bool operator==(const TttResult&) const = default;

  /// Whether any prediction is supervised.
  bool supervises() const {
    return std::any_of(step_supervised.begin(), step_supervised.end(), [](index_t n) { return n > 0; });
  }

  /// Makes what is reported of step k from its sums, and adds it to that of all steps. \param steps  of the unroll
  void finish_step(index_t k, index_t steps, const TttLoss& of) {
    const auto n = static_cast<std::size_t>(k);
    const auto count = static_cast<double>(std::max<index_t>(1, step_supervised[n]));
    correct += step_correct[n], supervised += step_supervised[n];
    step_alphas[n] = step_alpha_sums[n] / count;
    step_losses[n] = of.of_step(step_loss_sums[n] / count, step_alphas[n], step_supervised[n]);
    loss += ttt_step_weight(k, steps) * step_losses[n];
  }

  /// 1 + Σ_k P(the first k + 1 drafted tokens are all right)
  double simulated_accept_length(index_t steps) const {
    require_steps("simulated_accept_length: steps", steps);
    double length = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      length += static_cast<double>(step_prefix_hits[k]) / static_cast<double>(std::max<index_t>(1, step_chains[k]));
    }
    return length;
  }
};

/// Adds the chain at row r to the result. It counts while the loss mask allows, whatever the draft vocabulary; it hits
/// while every prediction so far was right. \param right  [steps][R]: whether step k is right at row r
/// \throws Error on a row that the batch or `right` has not
template <class Batch, class Right>
void count_chains(const Batch& batch, index_t steps, index_t r, const Right& right, TttResult& result) {
  require_steps("count_chains: steps", steps);
  const index_t reach = std::min(steps, predicted_steps(batch, r)), rows = batch.loss_mask.extent(0);
  require_part("count_chains: rows", r, std::max<index_t>(reach, 1), rows);
  require_count("count_chains: right: steps", std::min(steps, static_cast<index_t>(right.size())), steps);
  for (index_t k = 0; k < reach; ++k) {
    require_rows("count_chains: right", right[static_cast<std::size_t>(k)], rows);
  }
  bool counts = true, hit = true;
  for (index_t k = 0; k < reach; ++k) {
    const auto step = static_cast<std::size_t>(k);
    counts = counts && batch.loss_mask(r + k) != 0;
    hit = hit && right[step](r) != 0;
    result.step_chains[step] += counts ? 1 : 0;
    result.step_prefix_hits[step] += hit ? 1 : 0;
  }
}

/// What a step's losses are divided by, and what LK's lambda weighs: sums over all its batches, and over all ranks.
struct TttTotals {
  std::array<index_t, TttResult::max_steps> supervised{};  ///< predictions, per TTT step
  std::array<double, TttResult::max_steps> alphas{};       ///< their acceptance rates; LK's lambda alone wants them

  TttTotals& operator+=(const TttTotals& other) {
    for (std::size_t k = 0; k < supervised.size(); ++k) {
      supervised[k] += other.supervised[k], alphas[k] += other.alphas[k];
    }
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    for (std::size_t k = 0; k < supervised.size(); ++k) v(supervised[k]), v(alphas[k]);
  }
  double mean_alpha(std::size_t step) const { return of_all(alphas[step], step); }
  /// `x` divided among the step's supervised predictions.
  double of_all(double x, std::size_t step) const {
    return x / static_cast<double>(std::max<index_t>(1, supervised[step]));
  }
  /// Refuses counts of another batch.
  /// \throws Error unless a batch with these counts can be one of those summed here
  void check_holds(const std::array<index_t, TttResult::max_steps>& own) const {
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (own[k] <= supervised[k]) continue;
      throw Error("totals: supervised predictions of step " + std::to_string(k), std::to_string(supervised[k]),
                  "at least the batch's own " + std::to_string(own[k]));
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
