#pragma once
/// \file
/// What a training or held-out step counts. Everything is kept as a sum beside the sum it is divided by, so that
/// batches, windows and ranks are merged by addition and never averaged as averages; LK's lambda, which is no sum over
/// positions, is made of two such means last.
/// defines: Ratio, TttStepSums, TttMetrics

#include <algorithm>
#include <cstdint>
#include <string>

#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/objectives/ttt_loss.hpp>

namespace K3SPEC_NAMESPACE {

/// A sum and what it is a sum over.
struct Ratio {
  double numerator = 0, denominator = 0;

  /// 0 of nothing is 0.
  double value() const { return denominator == 0 ? 0.0 : numerator / denominator; }
  Ratio& operator+=(const Ratio& other) {
    numerator += other.numerator;
    denominator += other.denominator;
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    v(numerator), v(denominator);
  }
  bool operator==(const Ratio&) const = default;
};

/// The sums of one TTT step.
struct TttStepSums {
  double loss = 0;               ///< over supervised positions: cross-entropy, with LK's alpha -log α
  std::int64_t supervised = 0;   ///< positions in the loss mask whose target argmax the draft can say
  std::int64_t correct = 0;      ///< of these, where the draft's argmax is the target's
  std::int64_t prefix_hits = 0;  ///< chains of drafted tokens that are right up to and including this step
  std::int64_t chains = 0;       ///< chains that are in the loss mask so far, sayable or not
  double alpha = 0;              ///< acceptance rates Σ_v min(p_v, q_v) of the supervised positions; with an LK loss
  std::int64_t reached = 0;      ///< chains that are in the loss mask so far and right in all steps before this one

  TttStepSums& operator+=(const TttStepSums& other) {
    loss += other.loss;
    supervised += other.supervised;
    correct += other.correct;
    prefix_hits += other.prefix_hits;
    chains += other.chains;
    alpha += other.alpha;
    reached += other.reached;
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    v(loss), v(supervised), v(correct), v(prefix_hits), v(chains), v(alpha), v(reached);
  }
  bool operator==(const TttStepSums&) const = default;
};

/// Sums of all TTT steps.
class TttMetrics {
 public:
  static constexpr index_t max_steps = max_ttt_steps;

  /// Sums of nothing.
  /// \param loss  which one the sums are of
  /// \throws Error on a number of steps out of range
  explicit TttMetrics(index_t ttt_steps, const TttLoss& loss = {}) : count_(ttt_steps), loss_(loss) {
    if (ttt_steps >= 0 && ttt_steps <= max_steps) return;
    throw Error("TttMetrics: steps", std::to_string(ttt_steps), "0 to " + std::to_string(max_steps));
  }

  index_t ttt_steps() const { return count_; }
  /// The sums of a step.
  /// \throws Error on a step that there is no room for
  TttStepSums& operator[](index_t step) { return steps_[checked(step)]; }
  const TttStepSums& operator[](index_t step) const { return steps_[checked(step)]; }

  /// Adds the sums of another batch.
  /// \throws Error when the other one has another number of steps
  TttMetrics& operator+=(const TttMetrics& other) {
    if (other.count_ != count_) {
      throw Error("TttMetrics: steps", std::to_string(other.count_), std::to_string(count_));
    }
    for (index_t k = 0; k < count_; ++k) (*this)[k] += other[k];
    return *this;
  }
  void clear() { steps_.fill({}); }
  /// Calls v(number) for each sum of each step.
  template <class V>
  void visit_sums(V&& v) {
    for (index_t k = 0; k < count_; ++k) (*this)[k].visit_sums(v);
  }

  /// A step's loss, of all its supervised positions.
  double step_loss(index_t step) const {
    const TttStepSums& s = (*this)[step];
    const Ratio mean{s.loss, static_cast<double>(s.supervised)};
    return loss_.of_step(mean.value(), step_alpha(step).value(), s.supervised);
  }
  Ratio step_accuracy(index_t step) const { return ratio((*this)[step].correct, (*this)[step].supervised); }
  /// How often the first step+1 drafted tokens are all the target's.
  Ratio step_acceptance(index_t step) const { return ratio((*this)[step].prefix_hits, (*this)[step].chains); }

  index_t depths() const { return ttt_steps(); }
  /// Of the drafted tokens of a step whose predecessors are all the target's, those that are, too.
  Ratio depth_acceptance(index_t step) const { return ratio((*this)[step].prefix_hits, (*this)[step].reached); }

  /// Mean acceptance rate of the supervised positions, where a token is drawn from the draft.
  Ratio step_alpha(index_t step) const { return {(*this)[step].alpha, static_cast<double>((*this)[step].supervised)}; }
  /// Supervised predictions of all steps.
  std::int64_t supervised() const {
    std::int64_t all = 0;
    for (index_t k = 0; k < count_; ++k) all += (*this)[k].supervised;
    return all;
  }

  /// Σ 0.8ᵏ Lₖ / Σ 0.8ᵏ
  double loss() const {
    double total = 0, weights = 0, weight = 1;
    for (index_t k = 0; k < ttt_steps(); ++k, weight *= ttt_decay) {
      total += weight * step_loss(k);
      weights += weight;
    }
    return weights == 0 ? 0.0 : total / weights;
  }

  /// Over all steps.
  Ratio accuracy() const {
    Ratio all;
    for (index_t k = 0; k < ttt_steps(); ++k) all += step_accuracy(k);
    return all;
  }

  /// Tokens per target forward that greedy drafting with this text as the target's output would have had: 1 + Σ P(the
  /// first k+1 drafted tokens are right).
  double simulated_accept_length() const {
    double length = 1;
    for (index_t k = 0; k < ttt_steps(); ++k) length += step_acceptance(k).value();
    return length;
  }

  /// Calls v(name, value) for the number of supervised predictions, each step's acceptance and, if there is one, alpha.
  template <class V>
  void visit(V&& v) const {
    v("supervised", static_cast<double>(supervised()));
    for (index_t k = 0; k < ttt_steps(); ++k) v("acceptance_" + std::to_string(k), step_acceptance(k).value());
    for (index_t k = 0; loss_.lk != LkLoss::none && k < ttt_steps(); ++k)
      v("alpha_" + std::to_string(k), step_alpha(k).value());
  }

  bool operator==(const TttMetrics&) const = default;

 private:
  static std::size_t checked(index_t step) {
    require_index("TttMetrics: step", step, max_steps);
    return static_cast<std::size_t>(step);
  }
  static Ratio ratio(std::int64_t a, std::int64_t b) { return {static_cast<double>(a), static_cast<double>(b)}; }

  PerStep<TttStepSums> steps_{};  // an array: steps allocate nothing
  index_t count_;
  TttLoss loss_;
};

}  // namespace K3SPEC_NAMESPACE
