#pragma once
/// \file
/// What rounds of decoding cost, from their measured durations: of one more step of the draft, of one more row for the
/// target, and how many tokens a second they give with a draft and without. A duration that stands out, as of a
/// process that had to wait, counts as a few times the median.
/// defines: SmoothedMedian, LineFit, RoundMeasure, TokenRate, RoundCosts

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// The median of the last five values, exponentially smoothed.
class SmoothedMedian {
 public:
  static constexpr double weight = 0.25;

  void add(double x) {
    last_[count_ % last_.size()] = x;
    ++count_;
    auto sorted = last_;
    const std::size_t n = std::min(count_, sorted.size());
    // By hand: of std::sort's ways for longer ranges g++ 12 believes that they are taken.
    for (std::size_t i = 1; i < n; ++i) {
      for (std::size_t j = i; j > 0 && sorted[j] < sorted[j - 1]; --j) std::swap(sorted[j], sorted[j - 1]);
    }
    const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    value_ = count_ == 1 ? median : value_ + weight * (median - value_);
  }
  /// 0 before the first value.
  double value() const { return value_; }
  /// Adds a value. \returns it, or `times` the median where it is larger than that
  double clipped(double x, double times) {
    add(x);
    return std::min(x, times * value_);
  }

 private:
  std::array<double, 5> last_{};
  std::size_t count_ = 0;
  double value_ = 0;
};

/// A line through points by least squares, older ones counting less and less.
class LineFit {
 public:
  static constexpr double memory = 64;

  void add(double x, double y) {
    constexpr double keep = 1 - 1 / memory;
    n_ = keep * n_ + 1, x_ = keep * x_ + x, y_ = keep * y_ + y;
    xx_ = keep * xx_ + x * x, xy_ = keep * xy_ + x * y;
  }
  /// Its slope, no less than 0 and no more than that of a line from the origin. With all points at one x: that one's.
  double slope() const {
    if (!(x_ > 0)) return 0;
    const double steepest = y_ / x_, spread = n_ * xx_ - x_ * x_;
    if (!(spread > 1e-9 * n_ * xx_)) return steepest;
    return std::clamp((n_ * xy_ - x_ * y_) / spread, 0.0, steepest);
  }

 private:
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

/// What a round was, of all its texts together.
struct RoundMeasure {
  index_t steps = 0;    ///< tokens that the draft looked at
  index_t drafted = 0;  ///< those of them that were verified
  index_t tokens = 0;   ///< that it gave: those that stayed, and of each text the target's own
  double draft_seconds = 0, verify_seconds = 0, keep_seconds = 0;

  double seconds() const { return draft_seconds + verify_seconds + keep_seconds; }
};

/// Durations above so many medians are cut.
inline constexpr double outlier_medians = 4;

/// Tokens a second of rounds of one kind.
class TokenRate {
 public:
  /// Adds a round.
  /// \param memory  about how many of them count
  void add(const RoundMeasure& r, double memory) {
    const double keep = 1 - 1 / memory;
    tokens_ = keep * tokens_ + static_cast<double>(r.tokens);
    seconds_ = keep * seconds_ + median_.clipped(r.seconds(), outlier_medians);
  }
  /// 0 where nothing was measured.
  double value() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }

 private:
  SmoothedMedian median_;
  double tokens_ = 0, seconds_ = 0;
};

/// What depends on how much is drafted and verified.
class RoundCosts {
 public:
  /// A round of any kind.
  void add(const RoundMeasure& r) {
    drafts_.add(static_cast<double>(r.steps),
                r.steps == 0 ? 0 : draft_median_.clipped(r.draft_seconds, outlier_medians));
    verifies_.add(static_cast<double>(r.drafted), verify_median_.clipped(r.verify_seconds, outlier_medians));
  }
  /// One of plain decoding, beside that.
  void add_plain(const RoundMeasure& r) { plain_.add(r.seconds() / static_cast<double>(r.tokens)); }

  /// Seconds of one more step of a chain, and of one more token to verify.
  double step() const { return drafts_.slope(); }
  double row() const { return verifies_.slope(); }
  /// Tokens a second of plain decoding; 0 where nothing was measured.
  double plain_rate() const { return plain_.value() > 0 ? 1 / plain_.value() : 0; }

 private:
  LineFit drafts_, verifies_;
  SmoothedMedian draft_median_, verify_median_, plain_;
};

}  // namespace K3SPEC_NAMESPACE
