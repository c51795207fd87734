#pragma once
/// \file
/// defines: test::TttNumbers

#include <algorithm>
#include <array>

#include <k3spec/objectives/ttt_metrics.hpp>

namespace k3spec::test {

/// What came of one EAGLE-3 batch, as numbers with names of their own. Losses are means over supervised positions.
struct TttNumbers {
  static constexpr auto most = static_cast<std::size_t>(max_ttt_steps);
  double loss = 0;
  std::array<double, most> step_losses{}, step_loss_sums{}, step_alpha_sums{}, step_alphas{};
  std::array<index_t, most> step_supervised{}, step_correct{}, step_prefix_hits{}, step_chains{};
  index_t supervised = 0, correct = 0;
  double accept_length = 1;

  TttNumbers() = default;
  TttNumbers(const TttMetrics& m) : supervised(m.supervised()), accept_length(m.simulated_accept_length()) {
    for (index_t k = 0; k < m.ttt_steps(); ++k) {
      const auto n = static_cast<std::size_t>(k);
      const TttStepSums& s = m[k];
      step_losses[n] = m.step_loss(k), step_alphas[n] = m.step_alpha(k).value();
      step_loss_sums[n] = s.loss, step_alpha_sums[n] = s.alpha;
      step_supervised[n] = s.supervised, step_correct[n] = s.correct;
      step_prefix_hits[n] = s.prefix_hits, step_chains[n] = s.chains;
      correct += s.correct;
      loss += ttt_step_weight(k, m.ttt_steps()) * step_losses[n];
    }
  }
};

}  // namespace k3spec::test
