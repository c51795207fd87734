#include "examples/common/progress.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace k3spec;
using namespace k3spec::examples;
using Style = ProgressOptions::Style;

namespace {

/// A progress on a clock that the test moves.
struct Run {
  std::ostringstream out;
  double now = 100;
  Progress progress;

  explicit Run(Style style)
      : progress({.style = style, .seconds_between_lines = 10, .out = &out, .clock = [this] { return now; }}) {}
  void step(index_t done, double seconds) {
    now += seconds;
    progress.update({.done = done, .total = 100, .loss = 2.5, .accept_length = 1.25, .lr = 2e-3}, 1536);
  }
};

}  // namespace

TEST_CASE("durations, lines and bars") {
  CHECK(duration_string(0) == "0:00");
  CHECK(duration_string(59.4) == "0:59");
  CHECK(duration_string(200) == "3:20");
  CHECK(duration_string(3661) == "1:01:01");
  CHECK(duration_string(-1) == "0:00");
  CHECK(progress_line({.done = 3, .total = 700, .loss = 2.34567, .accept_length = 2.034, .lr = 1.9e-3}, 11520.4, 200) ==
        "3/700 loss 2.3457 accept 2.03 lr 1.9e-03 11520 tokens/s ETA 3:20");
  CHECK(progress_bar(0, 10, 5) == "[>    ]");
  CHECK(progress_bar(5, 10, 4) == "[==> ]");
  CHECK(progress_bar(10, 10, 4) == "[====]");
  CHECK(progress_bar(12, 10, 4) == "[====]");
  CHECK(progress_bar(9, 0, 4) == "[>   ]");
  CHECK(progress_line({.done = 3, .loss = 1}, 5, 7) == "3/? loss 1.0000 accept 0.00 lr 0.0e+00 5 tokens/s ETA ?");
}

TEST_CASE("without a terminal: the first and last step and one line in ten seconds") {
  Run run(Style::lines);
  for (index_t i = 1; i <= 100; ++i) run.step(i, 0.5);
  std::istringstream lines(run.out.str());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  REQUIRE(all.size() == 6);
  CHECK(all[0] == "1/100 loss 2.5000 accept 1.25 lr 2.0e-03 3072 tokens/s ETA 0:50");
  CHECK(all[1].rfind("21/100 ", 0) == 0);
  CHECK(all[5].rfind("100/100 ", 0) == 0);
}

TEST_CASE("what is left of a resumed run is told by its own steps' time, not by those made before") {
  Run run(Style::lines);
  run.step(61, 2);
  run.step(62, 2);
  run.step(70, 16);
  const std::string text = run.out.str();
  CHECK(text.rfind("61/100 loss 2.5000 accept 1.25 lr 2.0e-03 768 tokens/s ETA 1:18\n", 0) == 0);
  CHECK(text.find("70/100 loss 2.5000 accept 1.25 lr 2.0e-03 230 tokens/s ETA 3:20\n") != std::string::npos);
}

TEST_CASE("on a terminal: a bar drawn over, notes above it") {
  Run run(Style::bar);
  run.step(1, 1);
  run.step(2, 0.01);  // too soon to draw
  run.progress.note("held-out accept 1.50");
  run.step(100, 1);
  const std::string line = " loss 2.5000 accept 1.25 lr 2.0e-03 ", clear = "\r\x1b[K";
  const std::string text = run.out.str();
  CHECK(text.rfind("\r[>                       ] 1/100" + line + "1536 tokens/s ETA 1:39\x1b[K", 0) == 0);
  CHECK(text.find("2/100") == std::string::npos);
  CHECK(text.find(clear + "held-out accept 1.50\n\r[========================] 100/100") != std::string::npos);
  CHECK(text.back() == '\n');
}

TEST_CASE("silence") {
  Run run(Style::none);
  run.step(1, 1);
  run.progress.note("x");
  CHECK(run.out.str().empty());
}
