#pragma once
/// \file
/// How often drafted tokens stay, by how sure the draft was of them, learnt while texts are decoded.
/// defines: AcceptanceCounts, AcceptanceCalibration

#include <array>
#include <cstddef>

#include <k3spec/core/extents.hpp>
#include <k3spec/drafts/confidence_bins.hpp>

namespace K3SPEC_NAMESPACE {

/// Tokens whose predecessors stayed, and how many of them stayed, too. Older ones count less and less: in all there are
/// never more than `memory`.
class AcceptanceCounts {
 public:
  static constexpr double memory = 128;

  void add(bool accepted) {
    constexpr double keep = 1 - 1 / memory;
    reached_ = keep * reached_ + 1, accepted_ = keep * accepted_ + (accepted ? 1 : 0);
  }
  /// The share that stayed, of the counts and `weight` more with a share of `prior`.
  double share(double prior, double weight) const { return (accepted_ + weight * prior) / (reached_ + weight); }

 private:
  double reached_ = 0, accepted_ = 0;
};

/// The chance that a token stays when all before it do. A draft's own confidence is taken for it where nothing is
/// known yet, and it is corrected by what verification said of tokens of about that confidence: of those in its bin.
class AcceptanceCalibration {
 public:
  static constexpr index_t bins = confidence_bins;
  static constexpr double prior_weight = 2;

  /// The chance of a token of some confidence.
  /// \param confidence  of 0 to 1; what is no number is 0
  double acceptance(double confidence) const {
    return bins_[confidence_bin(confidence)].share(clamped_confidence(confidence), prior_weight);
  }
  /// A token was verified, those before it having stayed.
  void add(double confidence, bool accepted) { bins_[confidence_bin(confidence)].add(accepted); }

 private:
  std::array<AcceptanceCounts, static_cast<std::size_t>(bins)> bins_{};
};

}  // namespace K3SPEC_NAMESPACE
