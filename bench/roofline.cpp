/// \file
/// What the library's paths reach of the machine's peaks, both measured in the same run, in turns: products of training
/// steps, prepacked weights for few rows, elementwise functions, norms, losses, AdamW, and attention. Lines of JSON on
/// standard output; a page and a picture where --page and --picture say.

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <k3spec/io/atomic_file.hpp>

#include "roofline/attention.hpp"
#include "roofline/elementwise.hpp"
#include "roofline/machine.hpp"
#include "roofline/page.hpp"
#include "roofline/picture.hpp"
#include "roofline/products.hpp"

namespace {

using namespace k3spec;
using namespace k3spec::bench;

constexpr int rounds = 9;

template <class F>
double seconds_of(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// All paths and probes, measured in turns.
class Run {
 public:
  explicit Run(std::vector<int> threads) : threads_(std::move(threads)) {
    const auto pool = std::make_shared<Pool>();
    probes_ = bench::probes(pool);
    append(product_paths()), append(prepacked_paths()), append(elementwise_paths(pool)), append(attention_paths());
    append(openblas_paths());
    rates_.assign(threads_.size(), Times(probes_.size()));
    seconds_.assign(threads_.size(), Times(paths_.size()));
    calls_.assign(threads_.size(), std::vector<int>(paths_.size(), 1));
  }

  /// The first round only warms up.
  Results results() {
    for (int round = 0; round <= rounds; ++round) {
      for (std::size_t t = 0; t < threads_.size(); ++t) pass(t, round == 0);
    }
    Results r{threads_, paths_, {}, {}, "", ""};
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      r.roofs.push_back(roofs_of(probes_, rates_[t]));
      r.seconds.emplace_back();
      for (const auto& times : seconds_[t]) r.seconds.back().push_back(median(times));
    }
    return r;
  }

 private:
  void append(std::vector<Case> more) { std::move(more.begin(), more.end(), std::back_inserter(paths_)); }

  void pass(std::size_t t, bool warms_up) {
    const Cpu cpu{threads_[t]};
    for (std::size_t i = 0; i < probes_.size(); ++i) {
      double made = 0;
      const double took = seconds_of([&] { made = probes_[i].call(cpu); });
      if (!warms_up) rates_[t][i].push_back(made / took);
    }
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const Case& path = paths_[i];
      const bool cached = path.home == Home::cache;
      if (cached) path.call(cpu);
      const int calls = calls_[t][i];
      const double took = seconds_of([&] {
        for (int c = 0; c < calls; ++c) path.call(cpu);
      });
      if (!warms_up) seconds_[t][i].push_back(took / calls);
      // Short ones are timed by the 2 ms.
      if (warms_up && cached) calls_[t][i] = std::clamp(static_cast<int>(2e-3 / took), 1, 1000);
    }
    // OpenBLAS's threads, which come last, go on looking for work for a while.
    if (has_openblas && cpu.threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }

  std::vector<int> threads_;
  std::vector<Probe> probes_;
  std::vector<Case> paths_;
  std::vector<Times> rates_, seconds_;
  std::vector<std::vector<int>> calls_;
};

/// "a processor" where the system does not say.
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  return "a processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", std::gmtime(&now));
  return text.data();
}

/// "1,2"; empty when it is no such list.
std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    const int n = std::atoi(item.c_str());
    if (n < 1) return {};
    numbers.push_back(n);
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags{{"--page", ""}, {"--picture", ""}, {"--threads", "1,2"}};
  bool is_meant = argc % 2 == 1;
  for (int i = 1; i + 1 < argc && is_meant; i += 2) {
    is_meant = flags.count(argv[i]) == 1;
    if (is_meant) flags[argv[i]] = argv[i + 1];
  }
  const std::vector<int> threads = numbers_in(flags["--threads"]);
  if (!is_meant || threads.empty()) {
    fmt::print(stderr, "bench_roofline [--page FILE] [--picture FILE] [--threads 1,2]\n");
    return 2;
  }
  Results results = Run(threads).results();
  results.processor = processor(), results.date = today();
  print_json(results);
  const std::string &page_file = flags["--page"], &picture_file = flags["--picture"];
  if (!page_file.empty()) io::write_text(page_file, page(results, picture_file));
  if (!picture_file.empty()) io::write_text(picture_file, Picture(results).svg());
}
