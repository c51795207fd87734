#pragma once
/// \file
/// How far a confidence can be believed: predictions in bins of about one confidence, of each the mean confidence
/// beside the share that was right (the reliability diagram of Guo, Pleiss, Sun and Weinberger, "On calibration of
/// modern neural networks", 2017), and the expected calibration error made of them.
/// defines: ReliabilityBin, ReliabilityCurve

#include <array>
#include <cmath>
#include <cstdint>

#include <k3spec/drafts/confidence_bins.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// The predictions of one bin.
struct ReliabilityBin {
  std::int64_t count = 0;
  double confidences = 0, accuracies = 0;  ///< sums; the accuracy of a prediction may be the chance that it is right

  double confidence() const { return mean(confidences); }
  double accuracy() const { return mean(accuracies); }
  bool operator==(const ReliabilityBin&) const = default;

 private:
  double mean(double sum) const { return Ratio{sum, static_cast<double>(count)}.value(); }
};

/// Predictions by their confidence. All are sums, so that batches and ranks are merged by addition.
struct ReliabilityCurve {
  std::array<ReliabilityBin, static_cast<std::size_t>(confidence_bins)> bins{};  ///< by confidence_bin, equally wide

  /// A prediction, and whether it was right, or the chance of that.
  void add(double confidence, double accuracy) {
    ReliabilityBin& bin = bins[confidence_bin(confidence)];
    ++bin.count, bin.confidences += confidence, bin.accuracies += accuracy;
  }

  ReliabilityCurve& operator+=(const ReliabilityCurve& other) {
    for (std::size_t b = 0; b < bins.size(); ++b) {
      bins[b].count += other.bins[b].count, bins[b].confidences += other.bins[b].confidences;
      bins[b].accuracies += other.bins[b].accuracies;
    }
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    for (ReliabilityBin& bin : bins) v(bin.count), v(bin.confidences), v(bin.accuracies);
  }

  std::int64_t count() const {
    std::int64_t all = 0;
    for (const ReliabilityBin& bin : bins) all += bin.count;
    return all;
  }
  /// Σ over bins of count / all · |accuracy - confidence|, with 16 bins of equal width; 0 of nothing.
  double expected_calibration_error() const {
    Ratio error{0, static_cast<double>(count())};
    for (const ReliabilityBin& bin : bins) error.numerator += std::abs(bin.accuracies - bin.confidences);
    return error.value();
  }
  bool operator==(const ReliabilityCurve&) const = default;
};

}  // namespace K3SPEC_NAMESPACE
