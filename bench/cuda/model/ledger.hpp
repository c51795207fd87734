#pragma once
/// \file
/// What a step asks of a card: launches with their bytes and multiply-adds, waits, and memory.
/// defines: bench::Card, bench::Work, bench::Ledger

#include <algorithm>
#include <map>
#include <string>

#include <k3spec/core/extents.hpp>

namespace k3spec::bench {

/// What a card does in a second at most, and what a launch takes that does nothing.
struct Card {
  double bytes, flops, slow_flops, launch_seconds;
};

/// Of one launch, or of several that are alike.
struct Work {
  index_t launches = 1;
  double bytes = 0;       ///< each operand once, however often a kernel comes back to it
  double flops = 0;       ///< of products on matrix units; what is done to each element is not counted
  double slow_flops = 0;  ///< of products of float32, which run on the other units
};

/// Work by sort of kernel.
class Ledger {
 public:
  struct Sum : Work {
    double seconds = 0;  ///< the least that the launches take, one after another
  };

  explicit Ledger(const Card& card) : card_(card) {}

  void add(const std::string& sort, const Work& work) {
    Sum& sum = sorts_.try_emplace(sort, Sum{{0}}).first->second;
    sum.launches += work.launches, sum.bytes += work.bytes;
    sum.flops += work.flops, sum.slow_flops += work.slow_flops;
    sum.seconds += std::max(work.bytes / card_.bytes, multiplying(work)) +
                   static_cast<double>(work.launches) * card_.launch_seconds;
  }
  /// Seconds of a sort's multiply-adds.
  double multiplying(const Work& work) const { return work.flops / card_.flops + work.slow_flops / card_.slow_flops; }
  void wait() { ++waits_; }
  void hold(double bytes) {
    held_ += bytes;
    most_held_ = std::max(most_held_, held_);
  }
  void begin_step() { sorts_.clear(), waits_ = 0; }

  const std::map<std::string, Sum>& sorts() const { return sorts_; }
  index_t waits() const { return waits_; }
  double most_held() const { return most_held_; }
  Sum total() const {
    Sum all{{0}};
    for (const auto& [sort, sum] : sorts_) {
      all.launches += sum.launches, all.bytes += sum.bytes, all.seconds += sum.seconds;
      all.flops += sum.flops, all.slow_flops += sum.slow_flops;
    }
    return all;
  }

 private:
  Card card_;
  std::map<std::string, Sum> sorts_;
  index_t waits_ = 0;
  double held_ = 0, most_held_ = 0;
};

}  // namespace k3spec::bench
