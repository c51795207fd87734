#include "k3_tiny.hpp"

#include <cmath>
#include <fstream>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using State = TargetState<configs::KimiK3Tiny, float>;

namespace {

constexpr index_t vocab = configs::KimiK3Tiny::vocab_size, hidden = configs::KimiK3Tiny::hidden_size;

template <class Found>
double largest_difference(const Found& found, const std::vector<double>& wanted) {
  REQUIRE(static_cast<std::size_t>(found.extent(0) * found.extent(1)) == wanted.size());
  double largest = 0;
  for (index_t r = 0, i = 0; r < found.extent(0); ++r) {
    for (index_t c = 0; c < found.extent(1); ++c, ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(found(r, c)) - wanted[static_cast<std::size_t>(i)]));
    }
  }
  return largest;
}

/// Bits that the target spends on the tokens after the first, per token.
double bits_per_token(const test::Run<float>& run, const std::vector<index_t>& ids, index_t length) {
  double bits = 0;
  index_t count = 0;
  for (index_t r = 0; r < run.rows; ++r) {
    if ((r + 1) % length == 0) continue;
    const float* x = run.logits.data() + r * vocab;
    double total = 0;
    for (index_t v = 0; v < vocab; ++v) total += std::exp(static_cast<double>(x[v]));
    bits += std::log2(total) - static_cast<double>(x[ids[static_cast<std::size_t>(r) + 1]]) / std::log(2.0);
    ++count;
  }
  return bits / static_cast<double>(count);
}

}  // namespace

TEST_CASE("k3-tiny: layers, states and logits of the stored prompts") {
  auto ref = test::tiny_reference();
  const auto& tiny = test::tiny<float>();
  auto ids = ref.values<index_t>("input.prompts");
  ids.resize(4 * 64);
  State state({4, 64});
  const auto run = tiny(state, ids);
  for (index_t i = 0; i < tiny.layers; ++i) {
    CAPTURE(i);
    const auto wanted = ref.values<double>("output.layers." + std::to_string(i));
    CHECK(largest_difference(tiny.tapped(run, {Tap::What::running_sum, i}), wanted) <= 2e-4);
  }
  CHECK(largest_difference(Matrix<const float>(run.last.data(), 256, hidden), ref.values<double>("output.last")) <=
        2e-4);
  const auto logits = ref.values<double>("output.logits");
  CHECK(largest_difference(Matrix<const float>(run.logits.data(), 256, vocab), logits) <= 2e-4);
  CHECK(test::greedy_next(run.logits) == test::greedy_next(logits));
}

TEST_CASE("k3-tiny: greedy continuations of all stored prompts") {
  auto ref = test::tiny_reference();
  const auto prompts = ref.values<index_t>("input.prompts"), wanted = ref.values<index_t>("output.greedy");
  const auto gaps = ref.values<double>("output.greedy_gap");
  constexpr index_t rows = 32, length = 96;
  State state({rows, 64 + length});
  auto run = test::tiny<float>()(state, prompts);
  std::vector<index_t> next;
  for (index_t b = 0; b < rows; ++b) {
    const auto last = run.logits.begin() + (b * 64 + 63) * vocab;
    next.push_back(test::greedy_next(std::vector<float>(last, last + vocab))[0]);
  }
  std::vector<bool> open(rows, true);
  for (index_t t = 0; t < length; ++t) {
    for (index_t b = 0; b < rows; ++b) {
      const auto at = static_cast<std::size_t>(b * length + t), row = static_cast<std::size_t>(b);
      if (!open[row] || next[row] == wanted[at]) continue;
      CAPTURE(b);
      CAPTURE(t);
      CHECK(gaps[at] < 1e-4);
      open[row] = false;  // From a tie on, another text is right too.
    }
    if (t + 1 < length) next = test::greedy_next(test::tiny<float>()(state, next).logits);
  }
}

TEST_CASE("k3-tiny: bits per byte on held-out text") {
  const std::string text = test::contents(test::tiny_folder + "/heldout.txt");
  constexpr index_t rows = 16, length = 192;
  std::vector<index_t> ids;
  for (index_t b = 0; b < rows; ++b) {
    const std::size_t begin = text.size() / rows * static_cast<std::size_t>(b);
    for (std::size_t i = 0; i < length; ++i) ids.push_back(static_cast<unsigned char>(text[begin + i]));
  }
  State state({rows, length});
  const double bits = bits_per_token(test::tiny<float>()(state, ids), ids, length);
  const double stored = test::tiny_reference().values<double>("output.held_out_bits_per_byte")[0];
  MESSAGE("bits per byte ", bits, ", stored ", stored);
  CHECK(std::abs(bits - stored) < 0.1);
}
