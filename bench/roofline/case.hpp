#pragma once
/// \file
/// What is measured: a path through the library with its work, and how much of its roof it reaches.
/// defines: bench::Moves, bench::Home, bench::Case, bench::Roofs, bench::Times, bench::Standing, bench::median

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <k3spec/core/device.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>

namespace k3spec::bench {

/// Whether a path's bytes are nearly all read, or as many are written.
enum class Moves { reads, copies };

/// Where its operands lie: in memory, more of them than the caches hold and not asked for since the last pass; or in
/// the second-level cache, called again and again.
enum class Home { memory, cache };

/// A function of the library on operands of its own.
struct Case {
  std::string group, name;
  double flops = 0;  ///< of a call: a multiply-add is two, any other operation on a float one
  double bytes = 0;  ///< what a call reads and writes at least, each number once
  Moves moves = Moves::copies;
  Home home = Home::memory;
  std::function<void(const Cpu&)> call = {};
  bool is_drawn = true;

  double intensity() const { return flops / bytes; }
};

/// What the machine gives: flops and bytes a second.
struct Roofs {
  double peak = 0, memory_read = 0, memory_copy = 0, cache_read = 0, cache_copy = 0;

  double bandwidth(Moves moves, Home home) const {
    if (home == Home::memory) return moves == Moves::reads ? memory_read : memory_copy;
    return moves == Moves::reads ? cache_read : cache_copy;
  }
};

inline double median(std::vector<double> x) {
  if (x.empty()) return 0;
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// The seconds that each round took, for each number of threads.
using Times = std::vector<std::vector<double>>;

/// Where a path that takes `seconds` stands under its roofs.
struct Standing {
  double seconds, rate, of_peak, of_bandwidth;
  std::string bandwidth;  ///< which

  Standing(const Case& path, double took, const Roofs& roofs)
      : seconds(took),
        rate(path.flops / took),
        of_peak(rate / roofs.peak),
        of_bandwidth(path.bytes / took / roofs.bandwidth(path.moves, path.home)),
        bandwidth(fmt::format("{} {} bandwidth", path.home == Home::memory ? "memory's" : "the cache's",
                              path.moves == Moves::reads ? "read" : "copy")) {}

  /// The part of min(peak, bandwidth · intensity) that is reached.
  double of_roof() const { return std::max(of_peak, of_bandwidth); }

  /// What bounds it, in a sentence.
  std::string verdict() const {
    const bool computes = of_peak >= of_bandwidth;
    if (of_roof() < 0.5) {
      return fmt::format("under both roofs: {:.2f} of the peak, {:.2f} of {}", of_peak, of_bandwidth, bandwidth);
    }
    if (computes) return fmt::format("bound by multiply-adds: {:.2f} of the peak", of_peak);
    if (of_bandwidth > 1.05) return fmt::format("partly from caches: {:.2f} of {}", of_bandwidth, bandwidth);
    return fmt::format("bound by bytes: {:.2f} of {}", of_bandwidth, bandwidth);
  }
};

}  // namespace k3spec::bench
