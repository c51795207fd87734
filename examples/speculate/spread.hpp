#pragma once
/// \file
/// Times that were measured several times, and when two of them differ.
/// defines: Spread, ratio_text

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>

namespace k3spec::examples {

/// The median of some values, and between which two half of them lie: the quartiles, linear between values.
struct Spread {
  double low = 0, median = 0, high = 0;
  std::size_t runs = 0;

  static Spread of(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
      const double place = share * static_cast<double>(values.size() - 1), below = std::floor(place);
      const auto i = static_cast<std::size_t>(below);
      return values[i] + (place - below) * (values[std::min(i + 1, values.size() - 1)] - values[i]);
    };
    return {at(0.25), at(0.5), at(0.75), values.size()};
  }
  double width() const { return high - low; }
  std::string text() const { return fmt::format("{:.3f} ({:.3f}-{:.3f})", median, low, high); }
};

/// How many times less time `other` takes than `base`. Fewer than three runs have no spread to tell from; where it is
/// wider than the difference of the medians, the ratio could as well be another.
inline std::string ratio_text(const Spread& base, const Spread& other) {
  if (std::min(base.runs, other.runs) < 3) return "too few runs";
  if (other.median <= 0) return "-";
  if (std::max(base.width(), other.width()) > std::abs(base.median - other.median)) return "within spread";
  return fmt::format("{:.2f}", base.median / other.median);
}

}  // namespace k3spec::examples
