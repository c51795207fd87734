/// \file
/// Writes card_step.md: what a training step of each draft costs a card at least, on paper. Needs no card.
/// ```text
/// bench_cuda_model [--length N] > bench/card_step.md
/// ```

#include <algorithm>
#include <string>
#include <vector>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/core/format.hpp>

#include "steps.hpp"

namespace {

using namespace k3spec;
using bench::Card, bench::Ledger, bench::Step;

/// An H200: memory and bfloat16 products as measured on one, float32 products and size as its data sheet says.
constexpr Card h200{4.3e12, 790e12, 67e12, 1e-6};
constexpr double h200_bytes = 141e9;
/// What steps reach of the floor: 0.435 is a published run of a 1.1B draft of blocks on that card; 0.8 would be good.
constexpr double usual = 0.435, good = 0.8;

struct Case {
  const char* model;
  const char* draft;
  Step (*count)(const Card&, index_t length, Gradients32);
  bool has_page;  ///< kernel by kernel, too
};
const std::vector<Case> cases = {
    {"Kimi K3", "EAGLE-3", bench::count_eagle3<configs::KimiK3, bfloat16>, true},
    {"Kimi K3", "DFlash", bench::count_dflash<configs::KimiK3DFlash, bfloat16>, true},
    {"Kimi K3", "DSpark", bench::count_dspark<configs::KimiK3DSpark, bfloat16>, true},
    {"DeepSeek-V3", "EAGLE-3", bench::count_eagle3<configs::DeepSeekV3, bfloat16>, false},
    {"k3-tiny", "EAGLE-3", bench::count_eagle3<configs::KimiK3Tiny, bfloat16>, false},
    {"k3-tiny", "DFlash", bench::count_dflash<configs::KimiK3TinyDFlash, bfloat16>, false},
    {"k3-tiny", "DSpark", bench::count_dspark<configs::KimiK3TinyDSpark, bfloat16>, true},
};

constexpr const char* about = R"(# A training step on a card, on paper

Written by `bench_cuda_model`; `bench_cuda.model` fails when this page is not what it writes. Nothing here was measured.

The drafts' own code runs on a device that computes nothing and writes down what it is asked for: each launch with the
multiply-adds of its products and the bytes of its operands and results, each once. bfloat16 drafts, one sequence, five
TTT steps, an anchor in every eighth position up to {} in a sequence, forward, backward and AdamW. Logits exist for
{:.0f} GiB of float32 at a time.

| of an H200 | |
| --- | ---: |
| memory | {:.1f} TB/s, {:.0f} GB |
| products of bfloat16 | {:.0f} TFLOP/s |
| products of float32 | {:.0f} TFLOP/s |
| a launch | {:.0f} us |

The floor is the sum over launches of the longer of two times, multiply-adds and bytes, and a launch's own. Gradients
between layers are float32. A product of one with bfloat16 values runs as three products of bfloat16, which loses nothing
(backend/cuda/gemm.hpp); `floor, rounded` is the same step with such a gradient rounded to bfloat16 first, as PyTorch's
autograd has it anyway, and one product. A kernel per op is assumed: attention makes its weights again in both passes of
backward, one over queries and one over keys. Expected is {:.0f} to {:.0f} % of that second floor: a published run of a
1.1B draft of blocks reached 43.5 % of the card's peak.

)";

/// Three digits that matter.
std::string brief(double x) { return x < 99.95 ? fmt::format("{:.3g}", x) : fmt::format("{:.0f}", x); }

void print_step(const Case& c, const Step& step, const Step& rounded) {
  const auto all = step.ledger.total(), least = rounded.ledger.total();
  const double tokens = static_cast<double>(step.tokens);
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} to {} | {} to {} | {} | {}{} |\n", c.model,
             c.draft, step.tokens, brief(all.flops * 1e-12), brief(all.bytes * 1e-9), all.launches, least.launches,
             step.ledger.waits(), brief(all.seconds * 1e3), brief(least.seconds * 1e3),
             brief(least.seconds / good * 1e3), brief(least.seconds / usual * 1e3),
             brief(tokens * usual / least.seconds), brief(tokens * good / least.seconds), brief(step.planned * 1e-9),
             brief(step.held * 1e-9), step.held > h200_bytes ? ", too much" : "");
}

const char* bound(const Ledger& ledger, const Ledger::Sum& sum) {
  const double multiplying = ledger.multiplying(sum), moving = sum.bytes / h200.bytes;
  if (static_cast<double>(sum.launches) * h200.launch_seconds > std::max(multiplying, moving)) return "launches";
  return multiplying > moving ? "products" : "memory";
}

void print_sorts(const Case& c, const Step& step) {
  fmt::print(
      "\n{} of {}, {} tokens, gradients rounded\n\n| kernels | launches | TFLOP | GB | floor, ms | bound by |\n"
      "| --- | ---: | ---: | ---: | ---: | --- |\n",
      c.draft, c.model, step.tokens);
  for (const auto& [sort, sum] : step.ledger.sorts()) {
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", sort, sum.launches, brief((sum.flops + sum.slow_flops) * 1e-12),
               brief(sum.bytes * 1e-9), brief(sum.seconds * 1e3), bound(step.ledger, sum));
  }
}

void run(int argc, char** argv) {
  std::vector<index_t> lengths = {2048, 8192, 32768};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option != "--length" || i + 1 == argc) throw Error("option", option, "--length N");
    const std::string n = argv[++i];
    if (n.empty() || n.size() > 7 || n.find_first_not_of("0123456789") != std::string::npos || std::stol(n) < 64) {
      throw Error("--length", n, "64 to 9999999");
    }
    lengths = {std::stol(n)};
  }
  fmt::print(about, bench::most_anchors, static_cast<double>(bench::card_chunk(1)) * sizeof(float) / (1 << 30),
             h200.bytes * 1e-12, h200_bytes * 1e-9, h200.flops * 1e-12, h200.slow_flops * 1e-12,
             h200.launch_seconds * 1e6, usual * 100, good * 100);
  fmt::print(
      "| model | draft | tokens | TFLOP | GB | launches | rounded | waits | floor, ms | rounded | expected, ms "
      "| tokens/s | GB of activations | GB in all |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Case& c : cases) {
    for (const index_t length : lengths) {
      print_step(c, c.count(h200, length, Gradients32::split), c.count(h200, length, Gradients32::rounded));
    }
  }
  for (const Case& c : cases) {
    if (c.has_page) print_sorts(c, c.count(h200, lengths[lengths.size() / 2], Gradients32::rounded));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_model: {}\n", error.what());
    return 1;
  }
}
