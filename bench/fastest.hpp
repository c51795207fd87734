#pragma once
/// \file
/// defines: bench::Fastest

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace k3spec::bench {

/// Keeps the least time of each benchmark: the processor's, which other programs change less.
class Fastest : public benchmark::ConsoleReporter {
 public:
  Fastest() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& r : runs) {
      if (r.run_type != Run::RT_Iteration) continue;
      const double seconds = r.cpu_accumulated_time / static_cast<double>(r.iterations);
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
  std::map<std::string, double> seconds_;
};

}  // namespace k3spec::bench
