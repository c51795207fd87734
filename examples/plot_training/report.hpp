#pragma once
/// \file
/// The report: what of the logs stands where. A part that no log has numbers for is left out, and named.
/// defines: Report

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../common/progress.hpp"
#include "chart.hpp"
#include "decoding.hpp"
#include "html.hpp"
#include "series.hpp"
#include "tables.hpp"

namespace k3spec::examples {

class Report {
 public:
  /// \param decoding  empty where nothing is known of it
  Report(const std::vector<TrainingLog>& logs, const std::vector<Decoding>& decoding)
      : logs_(logs), decoding_(decoding) {}

  std::string html() {
    std::string names;
    for (const TrainingLog& log : logs_) names += (names.empty() ? "" : ", ") + log.name;
    std::string body = "<h1>Training report</h1>\n<p>" + html_text(names) + "</p>\n<div class=\"tables\">\n";
    body += section("Runs", summary_table(logs_));
    if (const auto sets = sets_table(logs_)) body += section("Other held-out texts, last look", *sets);
    if (!decoding_.empty()) body += section("Decoding, as measured", decoding_table(decoding_));
    body += "</div>\n<div class=\"cards\">\n" + loss() + accept_length() + acceptance() + calibration() + optimizer() +
            throughput() + decoded_acceptance() + "</div>\n";
    if (!absent_.empty()) body += card("<h2>Left out</h2>\n<ul class=\"absent\">\n" + absent_ + "</ul>\n");
    body += card("<details>\n<summary>All looks at held-out text, as numbers</summary>\n" + looks_table(logs_).html() +
                 "</details>\n");
    return page("Training report: " + names, body);
  }

 private:
  /// Points of a curve of training steps: fewer make it smoother.
  static constexpr std::size_t smooth = 60, exact = 200;

  static std::string card(const std::string& html) { return "<section class=\"card\">\n" + html + "</section>\n"; }
  static std::string section(const char* title, const Table& table) {
    return card(fmt::format("<h2>{}</h2>\n{}", title, table.html()));
  }

  /// A chart of one curve a run over the steps, or a line that says that there is none.
  /// \param axis  (least, largest): of the values
  template <class F>
  std::string over_steps(const std::string& title, const std::vector<Curve>& curves, const std::string& what, F&& axis,
                         const std::string& note = "") {
    double least = INFINITY, largest = -INFINITY;
    for (const Curve& curve : curves) {
      for (const Point& p : curve.points) least = std::min(least, p.y), largest = std::max(largest, p.y);
    }
    if (!(least <= largest)) return leave_out(title, what);
    Chart chart(title, step_axis(logs_), axis(least, largest));
    for (const Curve& curve : curves) chart.add(curve);
    chart.note(note);
    return chart.html();
  }

  std::string leave_out(const std::string& title, const std::string& what) {
    absent_ += fmt::format("<li>{}: no log has {}</li>\n", html_text(title), html_text(what));
    return "";
  }

  /// One of each run.
  template <class F>
  std::vector<Curve> curves(Curve::Kind kind, F&& points) const {
    std::vector<Curve> all;
    for (std::size_t i = 0; i < logs_.size(); ++i) all.push_back({logs_[i].name, i, points(logs_[i]), kind});
    return all;
  }

  std::string loss() {
    auto all =
        curves(Curve::Kind::thin, [](const TrainingLog& log) { return means_over(log.steps, &Step::loss, smooth); });
    for (Curve& curve : curves(Curve::Kind::measured, [](const TrainingLog& log) {
           return points_over(log.looks, [](const HeldoutNumbers& n) { return n.loss; });
         })) {
      all.push_back(std::move(curve));
    }
    return over_steps(
        "Loss", all, "losses", [](double least, double largest) { return Axis::around("loss", least, largest); },
        "Points: held-out text. Thin: training, means over up to a sixtieth of the steps. Losses of "
        "different kinds of drafts are not one measure.");
  }

  std::string accept_length() {
    const auto all = curves(Curve::Kind::measured, [](const TrainingLog& log) {
      return points_over(log.looks, [](const HeldoutNumbers& n) { return std::optional(n.accept_length); });
    });
    return over_steps(
        "Accept length on held-out text", all, "looks",
        [](double, double largest) { return Axis::around("emitted tokens over target forwards", 1, largest); },
        "As training simulates it.");
  }

  std::string acceptance() {
    std::vector<std::pair<std::string, std::vector<std::optional<double>>>> last;
    for (const TrainingLog& log : logs_) last.emplace_back(log.name, log.looks.back().numbers.acceptance);
    std::string out = by_depth("Acceptance per depth, last look", last, "acceptance per depth");
    for (const TrainingLog& log : logs_) out += acceptance_over_steps(log);
    return out;
  }

  std::string by_depth(const std::string& title,
                       const std::vector<std::pair<std::string, std::vector<std::optional<double>>>>& all,
                       const char* what) {
    std::size_t deepest = 0;
    for (const auto& [name, rates] : all) deepest = std::max(deepest, rates.size());
    if (deepest == 0) return leave_out(title, what);
    Chart chart(title, Axis::between("depth, drafted tokens", 0.5, static_cast<double>(deepest) + 0.5, 1, 10),
                Axis::between("accepted of those drafted there", 0, 1));
    for (std::size_t i = 0; i < all.size(); ++i) {
      Curve curve{all[i].first, i, {}};
      for (std::size_t depth = 0; depth < all[i].second.size(); ++depth) {
        if (all[i].second[depth]) curve.points.push_back({static_cast<double>(depth + 1), *all[i].second[depth]});
      }
      chart.add(std::move(curve));
    }
    return chart.html();
  }

  std::string acceptance_over_steps(const TrainingLog& log) const {
    std::size_t deepest = 0;
    for (const Look& look : log.looks) deepest = std::max(deepest, look.numbers.acceptance.size());
    if (deepest == 0) return "";
    Chart chart("Acceptance per depth: " + log.name, step_axis(logs_),
                Axis::between("accepted of those drafted there", 0, 1));
    for (std::size_t depth = 0; depth < deepest; ++depth) {
      chart.add({fmt::format("depth {}", depth + 1), depth, points_over(log.looks, [&](const HeldoutNumbers& n) {
                   return depth < n.acceptance.size() ? n.acceptance[depth] : std::nullopt;
                 })});
    }
    return chart.html();
  }

  std::string calibration() {
    const std::string title = "Calibration on held-out text, last look";
    Chart chart(title, Axis::between("confidence", 0, 1), Axis::between("accepted", 0, 1));
    chart.add_rule({0, 0}, {1, 1});
    bool any = false;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      const HeldoutNumbers& n = logs_[i].looks.back().numbers;
      const std::string error = n.calibration_error ? fmt::format(" (ECE {:.3f})", *n.calibration_error) : "";
      Curve curve{logs_[i].name + error, i, {}};
      for (const Bin& bin : n.bins) curve.points.push_back({bin.confidence, bin.accuracy});
      any = any || !curve.points.empty();
      chart.add(std::move(curve));
    }
    if (!any) return leave_out(title, "calibration");
    chart.note(
        "On the dashed line tokens are accepted as often as their confidence says. ECE: expected calibration "
        "error.");
    return chart.html();
  }

  std::string optimizer() {
    const auto from_zero = [](const char* label) {
      return [label](double, double largest) { return Axis::around(label, 0, largest); };
    };
    const auto lr =
        curves(Curve::Kind::line, [](const TrainingLog& log) { return means_over(log.steps, &Step::lr, exact); });
    auto norms = curves(Curve::Kind::line,
                        [](const TrainingLog& log) { return means_over(log.steps, &Step::grad_norm, smooth); });
    for (Curve& curve : norms) std::erase_if(curve.points, [](const Point& p) { return !(p.y > 0); });
    return over_steps("Learning rate", lr, "learning rates", from_zero("learning rate")) +
           over_steps(
               "Gradient norm", norms, "gradient norms",
               [](double least, double largest) { return Axis::logarithmic("norm, before clipping", least, largest); },
               "Means, as of the loss.");
  }

  std::string throughput() {
    const bool tokens = counts_tokens(logs_);
    const auto all =
        curves(Curve::Kind::line, [&](const TrainingLog& log) { return rates_over(log.steps, tokens, smooth); });
    return over_steps(
        "Throughput", all, "times of steps",
        [&](double, double largest) { return Axis::around(tokens ? "tokens a second" : "steps a second", 0, largest); },
        tokens ? "Of training steps alone, without looks and checkpoints."
               : "Of training steps alone; a log does not say how many tokens a step has.");
  }

  std::string decoded_acceptance() {
    if (decoding_.empty()) return "";
    std::vector<std::pair<std::string, std::vector<std::optional<double>>>> all;
    for (const Decoding& d : decoding_) {
      if (!d.acceptance.empty()) all.emplace_back(d.name, d.acceptance);
    }
    return by_depth("Acceptance per depth, decoding", all, "depths");
  }

  const std::vector<TrainingLog>& logs_;
  const std::vector<Decoding>& decoding_;
  std::string absent_;
};

}  // namespace k3spec::examples
