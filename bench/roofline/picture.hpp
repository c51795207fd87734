#pragma once
/// \file
/// The paths under their roofs as an SVG: flops a second over flops a byte, both axes logarithmic.
/// defines: bench::Picture

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "results.hpp"

namespace k3spec::bench {

/// Data to pixels, and the picture's parts.
class Picture {
 public:
  explicit Picture(const Results& r) : r_(r) {
    double least_x = 1, most_x = 1, least_y = 1e9, most_y = 1e9;
    for (std::size_t t = 0; t < r.threads.size(); ++t) {
      most_y = std::max(most_y, r.roofs[t].peak);
      for (std::size_t i = 0; i < r.paths.size(); ++i) {
        if (!r.paths[i].is_drawn) continue;
        least_x = std::min(least_x, r.paths[i].intensity()), most_x = std::max(most_x, r.paths[i].intensity());
        least_y = std::min(least_y, r.standing(t, i).rate);
      }
    }
    least_x_ = std::log10(least_x / 2), most_x_ = std::log10(most_x * 2);
    least_y_ = std::log10(least_y / 2), most_y_ = std::log10(most_y * 2);
  }

  std::string svg() {
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height());
    out += axes();
    for (std::size_t t = 0; t < r_.threads.size(); ++t) out += roofs(t);
    return out + points() + "</svg>\n";
  }

 private:
  static constexpr double width = 1240, plot_width = 880, left = 60, above = 30, below = 50, row = 15;
  struct Place {
    double x, y;
  };

  double height() const { return std::max(700.0, above + row * static_cast<double>(rows_of_legend()) + 20); }
  double bottom() const { return height() - below; }
  double right() const { return plot_width - 20; }
  double x(double intensity) const {
    return left + (std::log10(intensity) - least_x_) / (most_x_ - least_x_) * (right() - left);
  }
  double y(double rate) const {
    return bottom() - (std::log10(rate) - least_y_) / (most_y_ - least_y_) * (bottom() - above);
  }
  std::size_t rows_of_legend() const {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < r_.paths.size(); ++i) {
      rows += (r_.paths[i].is_drawn ? 1U : 0U) + (i == 0 || r_.paths[i].group != r_.paths[i - 1].group ? 1U : 0U);
    }
    return rows;
  }

  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
  }
  static std::string text(Place at, const char* anchor, const std::string& s, const std::string& more = "") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", at.x, at.y, anchor, more,
                       escaped(s));
  }
  static std::string rule(Place a, Place b, const char* colour, const char* more = "") {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n", a.x, a.y,
                       b.x, b.y, colour, more);
  }

  /// A line for each 1, 2 and 5 times a power of ten between the ends of an axis; f(value) draws it.
  template <class F>
  static void ticks(double least, double most, F&& f) {
    for (double power = std::floor(least); power <= most; ++power) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double at = power + std::log10(digit);
        if (at >= least && at <= most) f(std::pow(10, power) * digit);
      }
    }
  }

  std::string axes() const {
    std::string out;
    ticks(least_x_, most_x_, [&](double v) {
      out += rule({x(v), above}, {x(v), bottom()}, "#eee") +
             text({x(v), bottom() + 16}, "middle", fmt::format("{:.3g}", v));
    });
    ticks(least_y_, most_y_, [&](double v) {
      out += rule({left, y(v)}, {right(), y(v)}, "#eee") +
             text({left - 6, y(v) + 4}, "end", fmt::format("{:.3g}", v / 1e9));
    });
    out += rule({left, bottom()}, {right(), bottom()}, "#333") + rule({left, above}, {left, bottom()}, "#333");
    out += text({(left + right()) / 2, height() - 14}, "middle", "flops per byte that has to move");
    return out + text({left - 40, above - 12}, "start", "GFLOP/s");
  }

  /// A bandwidth's line up to the peak, its name along it from the `from`-th part of its length.
  std::string slope(double bandwidth, double peak, const std::string& name, const char* colour, double from) const {
    const double first = std::max(std::pow(10, least_x_), std::pow(10, least_y_) / bandwidth), last = peak / bandwidth;
    if (first >= last) return {};
    const double at = first * std::pow(last / first, from);
    const double angle = std::atan2(y(last * bandwidth) - y(first * bandwidth), x(last) - x(first)) * 180 / 3.14159265;
    const Place place{x(at), y(at * bandwidth) - 4};
    return rule({x(first), y(first * bandwidth)}, {x(last), y(peak)}, colour) +
           text(
               place, "start", name,
               fmt::format(" fill=\"{}\" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", colour, angle, place.x, place.y));
  }

  std::string roofs(std::size_t t) const {
    const Roofs& roof = r_.roofs[t];
    const char* colour = t == 0 ? "#666" : "#aaa";
    const std::string of = fmt::format(" ({})", r_.threads[t]);
    const double from = 0.03 + 0.45 * static_cast<double>(t);
    std::string out;
    const auto add = [&](double bandwidth, const char* name) {
      out += slope(bandwidth, roof.peak, fmt::format("{} {:.0f} GB/s{}", name, bandwidth / 1e9, of), colour, from);
    };
    add(roof.memory_copy, "memory copy"), add(roof.memory_read, "memory read"), add(roof.cache_copy, "cache copy");
    add(roof.cache_read, "cache read");
    out += rule({x(roof.peak / roof.cache_read), y(roof.peak)}, {right(), y(roof.peak)}, colour);
    const Place name{right() - 4, y(roof.peak) + (t == 0 ? 14 : -5)};
    return out + text(name, "end", fmt::format("multiply-adds {:.0f} GFLOP/s{}", roof.peak / 1e9, of),
                      fmt::format(" fill=\"{}\"", colour));
  }

  /// A place for a label near a point where no other label is.
  Place free_place(Place at) {
    Place best{at.x + 5, at.y - 5};
    for (double distance = 6; distance < 60; distance += 6) {
      for (const auto& [dx, dy] : std::initializer_list<std::array<double, 2>>{
               {1, -1}, {-1.8, -1}, {1, 1.6}, {-1.8, 1.6}, {1.6, 0.3}, {-2.4, 0.3}, {0, -1.6}, {0, 2.2}}) {
        const Place place{at.x + dx * distance, at.y + dy * distance};
        const auto near = [&](const Place& other) {
          return std::abs(other.x - place.x) < 15 && std::abs(other.y - place.y) < 11;
        };
        const auto on = [&](const Place& dot) {
          return std::abs(dot.x - place.x - 6) < 10 && std::abs(dot.y - place.y + 4) < 8;
        };
        if (std::any_of(labels_.begin(), labels_.end(), near) || std::any_of(dots_.begin(), dots_.end(), on)) continue;
        return labels_.emplace_back(place);
      }
    }
    return labels_.emplace_back(best);
  }

  std::string point(std::size_t i, int number, const char* colour) {
    std::string out;
    const double at = x(r_.paths[i].intensity());
    for (std::size_t t = r_.threads.size(); t-- > 0;) {
      const double height = y(r_.standing(t, i).rate);
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\" fill=\"{}\"/>\n", at, height,
                         colour, t == 0 ? colour : "none");
    }
    const Place from{at, y(r_.standing(0, i).rate)}, to = free_place(from);
    out += rule(from, {to.x + 5, to.y - 4}, colour, " stroke-width=\"0.5\"");
    return out + text(to, "start", std::to_string(number), fmt::format(" fill=\"{}\"", colour));
  }

  std::string points() {
    static constexpr std::array<const char*, 6> colours{"#0072b2", "#d55e00", "#009e73",
                                                        "#cc79a7", "#56b4e9", "#e69f00"};
    std::string out, group;
    std::size_t groups = 0;
    int number = 0;
    double legend = above;
    for (std::size_t i = 0; i < r_.paths.size(); ++i) {
      for (std::size_t t = 0; t < r_.threads.size(); ++t) {
        dots_.push_back({x(r_.paths[i].intensity()), y(r_.standing(t, i).rate)});
      }
    }
    for (std::size_t i = 0; i < r_.paths.size(); ++i) {
      const Case& path = r_.paths[i];
      if (!path.is_drawn) continue;
      if (path.group != group) {
        group = path.group, ++groups;
        out += text({plot_width, legend += row}, "start", group, " font-weight=\"bold\"");
      }
      const char* colour = colours[(groups - 1) % colours.size()];
      out += point(i, ++number, colour);
      out += text({plot_width, legend += row}, "start", fmt::format("{}  {}", number, path.name),
                  fmt::format(" fill=\"{}\"", colour));
    }
    return out;
  }

  const Results& r_;
  double least_x_, most_x_, least_y_, most_y_;
  std::vector<Place> labels_, dots_;
};

}  // namespace k3spec::bench
