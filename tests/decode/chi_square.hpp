#pragma once
/// \file
/// Pearson's test of counts against a distribution.
/// defines: test::p_value

#include <cmath>
#include <cstddef>
#include <vector>

namespace k3spec::test {

/// Q(a, x) = Γ(a, x) / Γ(a): the series below a + 1, the continued fraction above.
inline double upper_gamma(double a, double x) {
  if (x <= 0) return 1;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-16; ++n) term *= x / n, sum += term;
    return 1 - scale * sum;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
  for (int i = 1; i < 10000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return scale * value;
}

/// How likely counts at least as far from `probabilities` are. Cells that expect fewer than 5 are one. A count where
/// nothing can be: 0.
inline double p_value(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  double n = 0, statistic = 0, rest = 0, rest_expected = 0;
  int cells = 0;
  for (const double c : counts) n += c;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i];
    if (counts[i] > 0 && expected <= 0) return 0;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      rest += counts[i], rest_expected += expected;
    }
  }
  if (rest_expected > 1) add(rest, rest_expected);
  return cells < 2 ? 1 : upper_gamma((cells - 1) / 2.0, statistic / 2);
}

}  // namespace k3spec::test
