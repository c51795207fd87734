// Draws what train_draft logged: the accept length on held-out text over training steps, one line per run, as SVG.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/outputs.hpp>

#include "common/places.hpp"
#include "common/program.hpp"
#include "common/run_folder.hpp"

using namespace k3spec;

namespace {

struct Point {
  double x, y;
};

struct Series {
  std::string name;
  std::vector<Point> points;
};

/// A number of a log's that becomes a place in the picture.
double number_in(const io::json& object, const char* name, double least, double most, const std::string& subject) {
  const auto at = object.find(name);
  if (at != object.end() && at->is_number() && at->get<double>() >= least && at->get<double>() <= most) {
    return at->get<double>();
  }
  throw Error(fmt::format("{}: {}", subject, name), at == object.end() ? "nothing" : io::detail::excerpt(*at),
              fmt::format("a number from {:g} to {:g}", least, most));
}

/// The held-out accept lengths of a log of JSON lines.
std::vector<Point> read_log(const std::string& path) {
  std::istringstream in(io::read_file(path));
  std::vector<Point> points;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string subject = fmt::format("{}: line {}", path, number);
    const io::json record = io::parse_json(line, subject);
    if (!record.is_object() || !record.contains("heldout") || !record["heldout"].is_object()) continue;
    points.push_back(
        {number_in(record, "step", 0, 1e15, subject), number_in(record["heldout"], "accept_length", 1, 1e6, subject)});
  }
  if (points.empty()) throw Error(path, "no look at held-out text", "at least one");
  return points;
}

/// "dflash=build/run/train.jsonl"
void check_series(const std::string& argument) {
  const auto at = argument.find('=');
  if (at != std::string::npos && at > 0 && at + 1 < argument.size()) return;
  throw examples::UsageError("series", examples::shown_value(argument), "NAME=LOG");
}

Series read_series(const std::string& argument) {
  const auto at = argument.find('=');
  return {argument.substr(0, at), read_log(argument.substr(at + 1))};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// 1, 2 or 5 times a power of ten: the smallest such distance that makes at most `most` of it in `range`.
double tick_distance(double range, int most) {
  const double least = range / most, power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least) return step * power;
  }
  return 10 * power;
}

/// Data to pixels, and the picture's parts.
class Plot {
 public:
  explicit Plot(const std::vector<Series>& all) : all_(all) {
    for (const auto& series : all) {
      for (const Point& p : series.points) last_step_ = std::max(last_step_, p.x), top_ = std::max(top_, p.y);
    }
    step_tick_ = tick_distance(last_step_, 8);
    length_tick_ = tick_distance(top_ - 1, 8);
    top_ = 1 + length_tick_ * std::ceil((top_ - 1) / length_tick_);
  }

  /// How each such picture begins, and no other does.
  static std::string beginning() {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
        "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height);
  }

  std::string svg() const {
    std::string out = beginning();
    out += axes();
    for (std::size_t i = 0; i < all_.size(); ++i) out += line(i);
    return out + "</svg>\n";
  }

 private:
  static constexpr double width = 720, height = 420, left = 60, right = 20, above = 30, below = 50;

  double x(double step) const { return left + step / last_step_ * (width - left - right); }
  double y(double length) const { return height - below - (length - 1) / (top_ - 1) * (height - above - below); }

  static std::string text(double x, double y, const char* anchor, const std::string& s) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                       escaped(printable(s)));  // XML has no control characters
  }
  static std::string rule(Point a, Point b, const char* colour) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", a.x, a.y, b.x,
                       b.y, colour);
  }

  std::string axes() const {
    std::string out;
    for (int i = 0; i * length_tick_ <= top_ - 1 + 1e-9; ++i) {
      const double at = 1 + i * length_tick_;
      out += rule({x(0), y(at)}, {width - right, y(at)}, "#ddd") +
             text(left - 8, y(at) + 4, "end", fmt::format("{:g}", at));
    }
    for (int i = 0; i * step_tick_ <= last_step_ + 1e-9; ++i) {
      const double at = i * step_tick_;
      out += rule({x(at), y(1)}, {x(at), y(1) + 5}, "#333") + text(x(at), y(1) + 20, "middle", fmt::format("{:g}", at));
    }
    out += rule({x(0), y(1)}, {width - right, y(1)}, "#333");
    out += text((left + width - right) / 2, height - 10, "middle", "training steps");
    return out + text(left - 40, above - 12, "start", "accept length on held-out text, as training simulates it");
  }

  std::string line(std::size_t i) const {
    static constexpr const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};
    const char* colour = colours[i % std::size(colours)];
    std::string points;
    for (const Point& p : all_[i].points) points += fmt::format("{:.1f},{:.1f} ", x(p.x), y(p.y));
    const double row = above + 10 + 18 * static_cast<double>(i);
    return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", colour, points) +
           rule({left + 14, row - 4}, {left + 40, row - 4}, colour) +
           text(left + 46, row, "start", fmt::format("{} ({:.2f})", all_[i].name, all_[i].points.back().y));
  }

  const std::vector<Series>& all_;
  double last_step_ = 1, top_ = 1.1, step_tick_ = 1, length_tick_ = 1;
};

/// \throws Error when the picture would come where a log or anything else is but such a picture
void check_picture(const std::filesystem::path& out, const std::vector<std::string>& series) {
  std::vector<io::NamedPath> logs;
  for (const std::string& argument : series) logs.push_back({"series", argument.substr(argument.find('=') + 1)});
  examples::refuse_runs_own({"--out", out});
  io::refuse_other_files({"--out", out}, logs, "a picture of plot_training's", [](const std::filesystem::path& path) {
    std::string text(Plot::beginning().size(), '\0');
    text.resize(io::InputFile(path).read_some(0, text.data(), text.size()));
    return text == Plot::beginning();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const char* about = "Draws the accept length of training runs over their steps as SVG.";
  return examples::run_program("plot_training", about, [&](examples::Arguments& arguments) {
    std::vector<std::string> logs;
    std::filesystem::path out;
    arguments.texts("series", logs, "NAME=LOG for each run, LOG being train_draft's train.jsonl")->required();
    arguments.path("--out,--output", out, "The picture")->required();
    arguments.parse(argc, argv);

    for (const auto& log : logs) check_series(log);
    examples::check_output_file("--out", out);
    check_picture(out, logs);
    std::vector<Series> all;
    for (const auto& log : logs) all.push_back(read_series(log));
    io::write_text(out, Plot(all).svg());
    fmt::print("plot: {}\n", printable(out.string()));
  });
}
