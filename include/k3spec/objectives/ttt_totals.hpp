#pragma once
/// \file
/// What the losses of an EAGLE-3 step are divided by.
/// defines: TttTotals

#include <algorithm>
#include <string>

#include <k3spec/objectives/ttt_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// What a step's losses are divided by, and what LK's lambda weighs: sums over all its batches, and over all ranks.
struct TttTotals {
  PerStep<index_t> supervised{};  ///< predictions, per TTT step
  PerStep<double> alphas{};       ///< their acceptance rates; LK's lambda alone wants them

  /// Those of a batch with these sums.
  static TttTotals of(const TttMetrics& sums) {
    TttTotals all;
    for (index_t k = 0; k < sums.ttt_steps(); ++k) {
      const auto n = static_cast<std::size_t>(k);
      all.supervised[n] = sums[k].supervised, all.alphas[n] = sums[k].alpha;
    }
    return all;
  }
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
  /// Refuses those of another batch.
  /// \throws Error unless a batch with these can be one of those summed here
  void check_holds(const TttTotals& own) const {
    for (std::size_t k = 0; k < supervised.size(); ++k) {
      if (own.supervised[k] <= supervised[k]) continue;
      throw Error("totals: supervised predictions of step " + std::to_string(k), std::to_string(supervised[k]),
                  "at least the batch's own " + std::to_string(own.supervised[k]));
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
