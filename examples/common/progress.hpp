#pragma once
/// \file
/// How far a run is: a bar that is drawn over on a terminal, or else a line now and then.
/// defines: ProgressStep, progress_line, progress_bar, duration_string, ProgressOptions, Progress

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include <unistd.h>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>

namespace k3spec::examples {

/// What a step reports.
struct ProgressStep {
  index_t done = 0, total = 0;  ///< steps; a total of 0 is not known yet
  double loss = 0, accept_length = 0, lr = 0;
};

/// 59 s as 0:59, an hour as 1:00:00.
inline std::string duration_string(double seconds) {
  const auto s = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

/// "118/700 loss 2.3456 accept 2.03 lr 1.9e-03 11520 tokens/s ETA 3:20"
inline std::string progress_line(const ProgressStep& step, double tokens_per_second, double seconds_left) {
  const bool known = step.total > 0;
  return fmt::format("{}/{} loss {:.4f} accept {:.2f} lr {:.1e} {:.0f} tokens/s ETA {}", step.done,
                     known ? std::to_string(step.total) : "?", step.loss, step.accept_length, step.lr,
                     tokens_per_second, known ? duration_string(seconds_left) : "?");
}

/// "[====>     ]" of `width` characters inside.
inline std::string progress_bar(index_t done, index_t total, index_t width = 24) {
  const index_t filled = total <= 0 ? 0 : std::clamp<index_t>(done * width / total, 0, width);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < width) bar += '>';
  bar.resize(static_cast<std::size_t>(width), ' ');
  return '[' + bar + ']';
}

/// How progress is shown.
struct ProgressOptions {
  /// How it looks.
  enum class Style { automatic, bar, lines, none };
  Style style = Style::automatic;  ///< automatic: a bar if standard error is a terminal, else lines
  double seconds_between_lines = 10;
  double seconds_between_draws = 0.1;
  std::ostream* out = &std::cerr;
  /// Seconds since any fixed moment.
  std::function<double()> clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
};

/// Shows how far a run is.
class Progress {
 public:
  using Style = ProgressOptions::Style;

  explicit Progress(ProgressOptions options = {}) : options_(std::move(options)), start_(options_.clock()) {
    if (options_.style == Style::automatic) options_.style = ::isatty(STDERR_FILENO) != 0 ? Style::bar : Style::lines;
  }
  ~Progress() { clear_bar(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step. \param tokens  that the step trained on
  void update(const ProgressStep& step, index_t tokens) {
    tokens_ += tokens;
    ++steps_;
    const double now = options_.clock();
    const bool bar = options_.style == Style::bar, last = step.total > 0 && step.done >= step.total;
    const double interval = bar ? options_.seconds_between_draws : options_.seconds_between_lines;
    if (options_.style == Style::none || (steps_ > 1 && !last && now - shown_ < interval)) return;
    shown_ = now;
    const double elapsed = std::max(now - start_, 1e-9);
    const double left = elapsed / static_cast<double>(steps_) * static_cast<double>(step.total - step.done);
    const std::string line = progress_line(step, static_cast<double>(tokens_) / elapsed, left);
    if (bar) {
      *options_.out << '\r' << progress_bar(step.done, step.total) << ' ' << line << erase_to_end << std::flush;
      drawn_ = true;
    } else {
      *options_.out << line << '\n' << std::flush;
    }
    if (last) end_bar();
  }

  /// A line of its own, above the bar.
  void note(const std::string& text) {
    if (options_.style == Style::none) return;
    clear_bar();
    *options_.out << text << '\n' << std::flush;
  }

 private:
  static constexpr const char* erase_to_end = "\x1b[K";

  void clear_bar() {
    if (drawn_) *options_.out << '\r' << erase_to_end << std::flush;
    drawn_ = false;
  }
  /// Leaves the bar where it is.
  void end_bar() {
    if (drawn_) *options_.out << '\n' << std::flush;
    drawn_ = false;
  }

  ProgressOptions options_;
  double start_, shown_ = 0;
  index_t tokens_ = 0, steps_ = 0;
  bool drawn_ = false;
};

}  // namespace k3spec::examples
