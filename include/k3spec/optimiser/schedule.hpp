#pragma once
/// \file
/// The learning rate over the steps.
/// defines: WarmupCosine

#include <cmath>
#include <limits>
#include <numbers>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/range.hpp>

namespace K3SPEC_NAMESPACE {

/// The learning rate rises in a line over the first `warmup_steps` steps, then falls as half a cosine to
/// min_lr_ratio · lr at `total_steps`, and stays there.
struct WarmupCosine {
  /// A number of steps that is not fixed yet: the rate rises and then stays. To be fixed before warmup ends.
  static constexpr index_t open = std::numeric_limits<index_t>::max();
  /// Steps that a run can have: so many have random streams of their own, and no number made of them overflows.
  static constexpr index_t max_steps = index_t{1} << 32;

  double lr = 2e-3;
  index_t warmup_steps = 20;
  index_t total_steps = 1000;
  double min_lr_ratio = 0.1;

  /// What each may be; total_steps may also be open.
  static constexpr Range<double> lr_range{.least = 0}, min_lr_ratio_range{0, 1};
  static constexpr Range<index_t> warmup_range{0, max_steps}, total_range{1, max_steps};

  /// Stands for a number of steps that is not fixed.
  struct NotFixed {
    index_t value = open;
  };

  /// Calls v(name, setting, range) for each, see TrainSettings.
  template <class Schedule, class V>
  static void visit(Schedule& s, V&& v) {
    v("lr", s.lr, lr_range);
    v("warmup_steps", s.warmup_steps, warmup_range);
    v("total_steps", s.total_steps, total_range, NotFixed{});
    v("min_lr_ratio", s.min_lr_ratio, min_lr_ratio_range);
  }

  /// Refuses numbers out of range.
  /// \throws Error naming the field
  void check() const { visit(*this, CheckRange{"schedule: "}); }

  /// The rate of step `step`, the first being 0.
  double operator()(index_t step) const { return lr * ratio(step); }

 private:
  double ratio(index_t step) const {
    if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    if (step >= total_steps) return min_lr_ratio;
    const double passed = static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
    return min_lr_ratio + (1 - min_lr_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * passed));
  }
};

}  // namespace K3SPEC_NAMESPACE
