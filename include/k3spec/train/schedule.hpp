#pragma once
/// \file
/// The learning rate over the steps.
/// defines: WarmupCosine

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>

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

  /// \throws Error naming the field
  void check() const {
    const auto wanted = [](bool holds, const char* name, double found, const char* range) {
      if (!holds) throw Error(std::string("schedule: ") + name, fmt::format("{}", found), range);
    };
    wanted(lr >= 0 && std::isfinite(lr), "lr", lr, "a number >= 0");
    const auto count = [](index_t found, const char* name, index_t least) {
      if (found >= least && found <= max_steps) return;
      throw Error(std::string("schedule: ") + name, std::to_string(found), fmt::format("{} to {}", least, max_steps));
    };
    count(warmup_steps, "warmup_steps", 0);
    if (total_steps != open) count(total_steps, "total_steps", 1);
    wanted(min_lr_ratio >= 0 && min_lr_ratio <= 1, "min_lr_ratio", min_lr_ratio, "0 to 1");
  }

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
