#pragma once
/// \file
/// What a block draft's step counts. All are sums, so that batches and ranks are merged by addition; a mean is taken
/// last, of a numerator and a denominator that were summed apart.
/// defines: block_loss_mean, DFlashSums, DSparkSlot, DSparkSums, BlockMetrics

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/objectives/reliability_curve.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// Σ weight · loss / (Σ weight + 1e-6): 0 where nothing is supervised.
inline double block_loss_mean(double sum, double weight) { return sum / (weight + 1e-6); }
/// The same of sums that belong together.
inline double block_loss_mean(const Ratio& r) { return block_loss_mean(r.numerator, r.denominator); }

namespace detail {
template <std::size_t N>
void add_each(std::array<Ratio, N>& sums, const std::array<Ratio, N>& others) {
  for (std::size_t k = 0; k < N; ++k) sums[k] += others[k];
}
}  // namespace detail

/// What a batch of DFlash's objective gives, as sums.
template <index_t BlockSize>
struct DFlashSums {
  Ratio loss;                          ///< weight · cross-entropy over weight
  std::int64_t supervised = 0;         ///< slots
  std::int64_t correct = 0;            ///< of these, where the draft's argmax is the label
  std::int64_t accept_len_sum = 0;     ///< per block with supervision: leading correct slots, and one
  std::int64_t supervised_blocks = 0;  ///< blocks with supervision
  /// Per depth, of the slots with supervision before which all are right, the right ones. Slot 0 is the anchor.
  std::array<Ratio, static_cast<std::size_t>(BlockSize - 1)> depth_acceptance{};

  DFlashSums& operator+=(const DFlashSums& other) {
    loss += other.loss;
    supervised += other.supervised;
    correct += other.correct;
    accept_len_sum += other.accept_len_sum;
    supervised_blocks += other.supervised_blocks;
    detail::add_each(depth_acceptance, other.depth_acceptance);
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    loss.visit_sums(v);
    v(supervised), v(correct), v(accept_len_sum), v(supervised_blocks);
    for (Ratio& depth : depth_acceptance) depth.visit_sums(v);
  }
  double mean_loss() const { return block_loss_mean(loss); }
  Ratio accuracy() const { return {static_cast<double>(correct), static_cast<double>(supervised)}; }
  Ratio accept_length() const { return {static_cast<double>(accept_len_sum), static_cast<double>(supervised_blocks)}; }
  bool operator==(const DFlashSums&) const = default;
};

/// A supervised slot: its losses, the probability that its token is accepted, and what the confidence head says of it.
struct DSparkSlot {
  double weight, loss, cross_entropy, distance, confidence, acceptance;
  std::optional<double> predicted;
};

/// What a batch of DSpark's objective gives, as sums.
template <index_t BlockSize>
struct DSparkSums {
  Ratio loss, cross_entropy, distance, confidence;  ///< weight · loss (three terms together, each alone) over weight
  std::array<Ratio, static_cast<std::size_t>(BlockSize)> accept_rate;  ///< per slot, over supervised ones
  /// Tokens per target forward that sampling would have had, over blocks with supervision: 1 + Σ prefix products.
  Ratio accept_length;
  /// Weighted, predicted minus true acceptance: |·|, ·, and · of the prefix products.
  Ratio confidence_error, confidence_bias, confidence_prefix_bias;
  /// Per slot, Σ of the prefix products up to it over those up to the slot before: of the tokens whose predecessors
  /// are accepted, the share that is, too.
  std::array<Ratio, static_cast<std::size_t>(BlockSize)> depth_acceptance{};
  ReliabilityCurve reliability;  ///< of the confidence head: predicted and true acceptance of each slot, all alike

  /// A block's supervised slots, from slot 0 on; none: the block does not count.
  /// \throws Error on more than a block has
  void add_block(std::span<const DSparkSlot> slots) {
    if (slots.size() > accept_rate.size()) {
      throw Error("block: slots", std::to_string(slots.size()), "at most " + std::to_string(BlockSize));
    }
    double accepted = 1, predicted = 1, length = 1;
    for (std::size_t k = 0; k < slots.size(); ++k) {
      const DSparkSlot& slot = slots[k];
      accept_rate[k] += {slot.acceptance, 1};
      depth_acceptance[k] += {accepted * slot.acceptance, accepted};
      length += accepted *= slot.acceptance;
      add_losses(slot);
      if (!slot.predicted) continue;
      reliability.add(*slot.predicted, slot.acceptance);
      predicted *= *slot.predicted;
      const double error = *slot.predicted - slot.acceptance, w = slot.weight;
      confidence_error += {std::abs(error) * w, w}, confidence_bias += {error * w, w};
      confidence_prefix_bias += {(predicted - accepted) * w, w};
    }
    if (!slots.empty()) accept_length += {length, 1};
  }

  DSparkSums& operator+=(const DSparkSums& other) {
    loss += other.loss, cross_entropy += other.cross_entropy, distance += other.distance;
    confidence += other.confidence, accept_length += other.accept_length;
    detail::add_each(accept_rate, other.accept_rate), detail::add_each(depth_acceptance, other.depth_acceptance);
    confidence_error += other.confidence_error, confidence_bias += other.confidence_bias;
    confidence_prefix_bias += other.confidence_prefix_bias, reliability += other.reliability;
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    loss.visit_sums(v), cross_entropy.visit_sums(v), distance.visit_sums(v), confidence.visit_sums(v);
    for (Ratio& slot : accept_rate) slot.visit_sums(v);
    accept_length.visit_sums(v), confidence_error.visit_sums(v), confidence_bias.visit_sums(v);
    confidence_prefix_bias.visit_sums(v);
    for (Ratio& depth : depth_acceptance) depth.visit_sums(v);
    reliability.visit_sums(v);
  }
  double mean_loss() const { return block_loss_mean(loss); }
  bool operator==(const DSparkSums&) const = default;

 private:
  void add_losses(const DSparkSlot& slot) {
    const double w = slot.weight;
    loss += {w * slot.loss, w}, cross_entropy += {w * slot.cross_entropy, w};
    distance += {w * slot.distance, w}, confidence += {w * slot.confidence, w};
  }
};

/// A block objective's sums by the names that a trainer's metrics have.
template <class Sums>
struct BlockMetrics {
  Sums sums;

  BlockMetrics& operator+=(const BlockMetrics& other) {
    sums += other.sums;
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    sums.visit_sums(v);
  }
  double loss() const { return sums.mean_loss(); }
  /// Slots.
  std::int64_t supervised() const { return static_cast<std::int64_t>(accuracy().denominator); }
  /// Of supervised slots. DFlash: where the draft's choice is the text's token. DSpark: the chance that a token drawn
  /// from the draft is accepted.
  Ratio accuracy() const {
    if constexpr (requires { sums.accuracy(); }) {
      return sums.accuracy();
    } else {
      Ratio all;
      for (const Ratio& slot : sums.accept_rate) all += slot;
      return all;
    }
  }
  /// Tokens per target forward: the text (DFlash), or what the target draws (DSpark), being what the target says.
  double simulated_accept_length() const {
    const Ratio length = accept_length();
    return length.denominator == 0 ? 1 : length.value();
  }
  index_t depths() const { return static_cast<index_t>(sums.depth_acceptance.size()); }
  /// Of the drafted tokens of a depth whose predecessors are all accepted, the share that is, too.
  /// \throws Error on a depth that there is not
  Ratio depth_acceptance(index_t depth) const {
    require_index("BlockMetrics: depth", depth, depths());
    return sums.depth_acceptance[static_cast<std::size_t>(depth)];
  }
  /// How far the confidence head can be believed; of nothing where a draft has none.
  const ReliabilityCurve& calibration() const requires requires(const Sums& s) { s.reliability; }
  { return sums.reliability; }
  /// Calls v(name, value) for whatever else there is.
  template <class V>
  void visit(V&& v) const {
    if constexpr (requires { sums.accept_rate; }) {
      v("cross_entropy", block_loss_mean(sums.cross_entropy));
      v("distance", block_loss_mean(sums.distance));
      v("confidence_loss", block_loss_mean(sums.confidence));
      v("confidence_error", sums.confidence_error.value());
      v("confidence_bias", sums.confidence_bias.value());
      v("confidence_prefix_bias", sums.confidence_prefix_bias.value());
      for (std::size_t k = 0; k < sums.accept_rate.size(); ++k) {
        v("accept_rate_" + std::to_string(k), sums.accept_rate[k].value());
      }
    }
  }
  bool operator==(const BlockMetrics&) const = default;

 private:
  Ratio accept_length() const {
    if constexpr (requires { sums.accept_length(); }) {
      return sums.accept_length();
    } else {
      return sums.accept_length;
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
