#pragma once
/// \file
/// Curves over a common axis as SVG: a card with a heading, the picture, and a legend. Points show their numbers under
/// the pointer; who cannot see the picture is told where each curve begins and ends.
/// defines: Point, Curve, tick_text, Axis, Chart

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/format.hpp>

#include "html.hpp"

namespace k3spec::examples {

struct Point {
  double x, y;
};

struct Curve {
  enum class Kind {
    measured,  ///< points with a line through them
    line,
    thin  ///< a line that stands behind another of its name, and is not in the legend
  };
  std::string name;
  std::size_t style;  ///< a colour and a dash
  std::vector<Point> points;
  Kind kind = Kind::measured;
};

/// 1, 2 or 5 times a power of ten: the smallest such distance that makes at most `most` of it in `range`.
inline double tick_distance(double range, int most) {
  const double least = range / most, power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least) return step * power;
  }
  return 10 * power;
}

/// A number beside a tick, in a few characters: 0.002, 150000, 2e-5, 1.5e8.
inline std::string tick_text(double x) {
  if (x == 0 || (std::abs(x) >= 1e-3 && std::abs(x) < 1e6)) return fmt::format("{:g}", x);
  const std::string text = fmt::format("{:.3e}", x);
  const auto e = text.find('e');
  const auto digits = text.find_last_not_of('0', e - 1);
  const std::string mantissa = text.substr(0, text[digits] == '.' ? digits : digits + 1);
  return fmt::format("{}e{}", mantissa, std::stoi(text.substr(e + 1)));
}

/// The numbers along one side.
class Axis {
 public:
  static constexpr int most_ticks = 6;

  /// From one number to another. \param least_tick  1 for whole numbers  \param most  ticks
  static Axis between(std::string label, double from, double to, double least_tick = 0, int most = most_ticks) {
    Axis axis(std::move(label), from, above(from, to));
    axis.add_ticks(std::max(least_tick, tick_distance(axis.to_ - from, most)));
    return axis;
  }
  /// The same, widened to ticks.
  static Axis around(std::string label, double from, double to) {
    const double distance = tick_distance(above(from, to) - from, most_ticks);
    Axis axis(std::move(label), distance * std::floor(from / distance + 1e-9),
              distance * std::ceil(above(from, to) / distance - 1e-9));
    axis.add_ticks(distance);
    return axis;
  }
  /// Powers of ten at equal distances, and what lies between where these are few.
  static Axis logarithmic(std::string label, double from, double to) {
    const double low = std::floor(std::log10(from)), high = std::max(low + 1, std::ceil(std::log10(to) - 1e-9));
    Axis axis(std::move(label), std::pow(10, low), std::pow(10, high));
    axis.logarithmic_ = true;
    const bool few = high - low <= 2;
    const double every = std::ceil((high - low) / most_ticks);
    for (double power = low; power <= high; power += every) {
      for (const double step : {1.0, 2.0, 5.0}) {
        if (step == 1 || (few && power < high)) axis.ticks_.push_back(step * std::pow(10, power));
      }
    }
    if (few) axis.trim(from, to);
    return axis;
  }

  const std::string& label() const { return label_; }
  const std::vector<double>& ticks() const { return ticks_; }
  bool has(double x) const { return !logarithmic_ || x > 0; }
  /// From 0 to 1.
  double place(double x) const {
    if (logarithmic_) return std::log10(x / from_) / std::log10(to_ / from_);
    return (x - from_) / (to_ - from_);
  }

 private:
  Axis(std::string label, double from, double to) : label_(std::move(label)), from_(from), to_(to) {}

  /// `to`, or a number above `from` where it is none.
  static double above(double from, double to) { return to > from ? to : from + std::max(1.0, std::abs(from) / 10); }
  /// Leaves out ticks that stand beyond those around these numbers.
  void trim(double from, double to) {
    while (ticks_.size() > 2 && ticks_[1] <= from) ticks_.erase(ticks_.begin());
    while (ticks_.size() > 2 && ticks_[ticks_.size() - 2] >= to) ticks_.pop_back();
    from_ = ticks_.front(), to_ = ticks_.back();
  }
  void add_ticks(double distance) {
    const double first = std::ceil(from_ / distance - 1e-9);
    for (int i = 0; (first + i) * distance <= to_ + 1e-9 * distance; ++i) {
      ticks_.push_back((first + i) * distance + 0.0);  // not -0
    }
  }

  std::string label_;
  double from_, to_;
  bool logarithmic_ = false;
  std::vector<double> ticks_;
};

class Chart {
 public:
  Chart(std::string title, Axis x, Axis y) : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

  void add(Curve curve) {
    std::erase_if(curve.points, [&](const Point& p) { return !y_.has(p.y); });
    if (!curve.points.empty()) curves_.push_back(std::move(curve));
  }
  /// A line of the axes' making, behind the curves.
  void add_rule(Point from, Point to) { rule_ = fmt::format("<path class=\"axis d2\" d=\"{}\"/>\n", path(from, to)); }
  /// Below the picture.
  void note(std::string text) { note_ = std::move(text); }

  std::string html() const {
    std::string out = fmt::format("<figure class=\"card\">\n<figcaption>{}</figcaption>\n", html_text(title_));
    out += fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width, height,
                       html_text(description()));
    out += axes() + rule_;
    for (const Curve& curve : curves_) out += drawn(curve);
    out += "</svg>\n<ul class=\"legend\">\n";
    for (const Curve& curve : curves_) {
      if (curve.kind == Curve::Kind::thin) continue;
      out += fmt::format(
          "<li><svg class=\"key\" viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path class=\"{}\" "
          "d=\"M0 5H34\"/></svg>{}</li>\n",
          classes(curve), html_text(curve.name));
    }
    out += "</ul>\n";
    if (!note_.empty()) out += fmt::format("<p>{}</p>\n", html_text(note_));
    return out + "</figure>\n";
  }

 private:
  static constexpr double width = 480, height = 290, left = 60, right = 20, above = 32, below = 48;
  static constexpr std::size_t styles = 6, most_dots = 100;

  double x(double value) const { return left + x_.place(value) * (width - left - right); }
  double y(double value) const { return height - below - y_.place(value) * (height - above - below); }
  std::string path(Point a, Point b) const {
    return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x(a.x), y(a.y), x(b.x), y(b.y));
  }

  static std::string classes(const Curve& curve) {
    const std::size_t colour = curve.style % styles, dash = (colour + curve.style / styles) % styles;
    return fmt::format("curve s{} d{}{}", colour, dash, curve.kind == Curve::Kind::thin ? " thin" : "");
  }
  static std::string text(double x, double y, const char* anchor, const std::string& s) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, html_text(s));
  }

  std::string description() const {
    std::string out = fmt::format("{}: {} over {}.", title_, y_.label(), x_.label());
    for (const Curve& curve : curves_) {
      const Point &first = curve.points.front(), &last = curve.points.back();
      out +=
          fmt::format(" {}: from {:.4g} at {:.6g} to {:.4g} at {:.6g}.", curve.name, first.y, first.x, last.y, last.x);
    }
    return out;
  }

  std::string axes() const {
    constexpr double bottom = height - below;
    std::string out;
    for (const double tick : y_.ticks()) {
      out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left, y(tick), width - right) +
             text(left - 8, y(tick) + 5, "end", tick_text(tick));
    }
    for (const double tick : x_.ticks()) {
      out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", x(tick), bottom) +
             text(x(tick), bottom + 20, "middle", tick_text(tick));
    }
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left, bottom, width - right);
    out += text((left + width - right) / 2, height - 8, "middle", x_.label());
    return out + text(0, 16, "start", y_.label());
  }

  std::string drawn(const Curve& curve) const {
    std::string points, dots;
    const bool dotted = curve.kind == Curve::Kind::measured && curve.points.size() <= most_dots;
    for (const Point& p : curve.points) {
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x(p.x), y(p.y));
      if (!dotted) continue;
      dots += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}</title></circle>\n",
                          curve.style % styles, x(p.x), y(p.y),
                          html_text(fmt::format("{}: {:.4g} at {:.6g}", curve.name, p.y, p.x)));
    }
    return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", classes(curve), points) + dots;
  }

  std::string title_;
  Axis x_, y_;
  std::vector<Curve> curves_;
  std::string rule_, note_;
};

}  // namespace k3spec::examples
