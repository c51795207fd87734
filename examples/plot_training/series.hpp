#pragma once
/// \file
/// Curves out of logs. Of many steps a curve has the means of as many equal stretches as can be seen.
/// defines: stretches, means_over, rates_over, points_over, median, last_step, step_axis

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "log.hpp"

namespace k3spec::examples {

/// Parts of a list that are as long as each other, but for the last: (begin, end).
inline std::vector<std::pair<std::size_t, std::size_t>> stretches(std::size_t size, std::size_t most) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  const std::size_t each = std::max<std::size_t>(1, (size + most - 1) / most);
  for (std::size_t at = 0; at < size; at += each) all.emplace_back(at, std::min(size, at + each));
  return all;
}

namespace detail {

/// A point a stretch: the middle step, and what `value(begin, end)` says, if anything.
template <class F>
std::vector<Point> over_stretches(const std::vector<Step>& steps, std::size_t most, F&& value) {
  std::vector<Point> points;
  for (const auto& [begin, end] : stretches(steps.size(), most)) {
    const std::optional<double> y = value(begin, end);
    if (y) points.push_back({(steps[begin].step + steps[end - 1].step) / 2, *y});
  }
  return points;
}

}  // namespace detail

/// Means of what is there. \param of  a member of Step
inline std::vector<Point> means_over(const std::vector<Step>& steps, std::optional<double> Step::*of,
                                     std::size_t most) {
  return detail::over_stretches(steps, most, [&](std::size_t begin, std::size_t end) -> std::optional<double> {
    double sum = 0, count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (steps[i].*of) sum += *(steps[i].*of), ++count;
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
  });
}

/// Tokens, or else steps, a second.
inline std::optional<double> rate_of(const Step& s, bool tokens) {
  if (!s.seconds || !(*s.seconds > 0) || (tokens && !s.tokens)) return std::nullopt;
  return (tokens ? *s.tokens : 1) / *s.seconds;
}
inline std::vector<Point> rates_over(const std::vector<Step>& steps, bool tokens, std::size_t most) {
  return detail::over_stretches(steps, most, [&](std::size_t begin, std::size_t end) -> std::optional<double> {
    double count = 0, seconds = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (rate_of(steps[i], tokens)) count += tokens ? *steps[i].tokens : 1, seconds += *steps[i].seconds;
    }
    return seconds > 0 ? std::optional(count / seconds) : std::nullopt;
  });
}

/// What `value(numbers)` says of each look, if anything.
template <class F>
std::vector<Point> points_over(const std::vector<Look>& looks, F&& value) {
  std::vector<Point> points;
  for (const Look& look : looks) {
    const std::optional<double> y = value(look.numbers);
    if (y) points.push_back({look.step, *y});
  }
  return points;
}

/// The middle one; of an even number the mean of the two.
inline std::optional<double> median(std::vector<double> all) {
  if (all.empty()) return std::nullopt;
  std::sort(all.begin(), all.end());
  return (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
}

/// The last step of a log. \returns 0 of one that only looked before the first
inline double last_step(const TrainingLog& log) {
  return std::max(log.looks.back().step, log.steps.empty() ? 0 : log.steps.back().step);
}

inline Axis step_axis(const std::vector<TrainingLog>& logs) {
  double last = 0;
  for (const TrainingLog& log : logs) last = std::max(last, last_step(log));
  return Axis::between("training steps", 0, last, 1);
}

}  // namespace k3spec::examples
