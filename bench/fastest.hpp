#pragma once
/// \file
/// defines: bench::Clock, bench::Fastest

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace k3spec::bench {

/// processor: of one thread, which other programs change less; wall: of all threads, with nothing printed.
enum class Clock { processor, wall };

/// Keeps the least time of each benchmark.
class Fastest : public benchmark::ConsoleReporter {
 public:
  explicit Fastest(Clock clock = Clock::processor) : ConsoleReporter(OO_Tabular), clock_(clock) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    if (clock_ == Clock::processor) ConsoleReporter::ReportRuns(runs);
    for (const Run& r : runs) {
      if (r.run_type != Run::RT_Iteration) continue;
      const double all = clock_ == Clock::wall ? r.real_accumulated_time : r.cpu_accumulated_time;
      const double seconds = all / static_cast<double>(r.iterations);
      const auto [at, is_new] = seconds_.try_emplace(r.run_name.function_name, seconds);
      at->second = std::min(at->second, seconds);
    }
  }
  /// 0 if it was not run.
  double seconds(const std::string& name) const {
    const auto at = seconds_.find(name);
    return at == seconds_.end() ? 0 : at->second;
  }

 private:
  Clock clock_;
  std::map<std::string, double> seconds_;
};

}  // namespace k3spec::bench
