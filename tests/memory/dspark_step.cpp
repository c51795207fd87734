// A DSpark training step over Kimi K3's vocabulary: what it takes above parameters and gradients.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include <tests/memory/live_bytes.hpp>
#include <k3spec/objectives/dspark_objective.hpp>

using namespace k3spec;

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

struct Config : configs::DSpark<configs::KimiK3Small> {
  static constexpr index_t num_draft_layers = 1, num_target_layers = 2, block_size = 8, markov_rank = 64;
  static constexpr std::optional<index_t> mask_token_id = 163824;
};
using Draft = DSparkDraft<Config>;
using Objective = DSparkObjective<Draft, float>;
constexpr index_t length = 512, blocks = 64;
static_assert(Draft::vocabulary == 163840 && Draft::hidden == 512 && blocks * Draft::block_size == 512);

/// Values near N(0, deviation²) that cost nothing to make: sums of four uniform ones.
template <class T>
void fill(T* p, index_t n, double deviation, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (index_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<double>(state >> (16 * k) & 0xffffU) / 65536.0 - 0.5;
    p[i] = static_cast<T>(deviation * std::sqrt(3.0) * sum);
  }
}

struct Text {
  std::vector<index_t> ids, anchors;
  std::vector<std::uint8_t> loss_mask = std::vector<std::uint8_t>(length, 1),
                            keep = std::vector<std::uint8_t>(blocks, 1);
  std::vector<float> hidden = std::vector<float>(static_cast<std::size_t>(length * Draft::target_width));
  std::vector<float> last = std::vector<float>(static_cast<std::size_t>(length * Draft::hidden));

  Text() {
    for (index_t i = 0; i < length; ++i) ids.push_back(i * 7919 % Draft::vocabulary);
    for (index_t i = 0; i < blocks; ++i) anchors.push_back(7 * i);
    fill(hidden.data(), static_cast<index_t>(hidden.size()), 1.0, 3);
    fill(last.data(), static_cast<index_t>(last.size()), 1.0, 4);
  }
  Objective::Batch batch() const {
    return {{length, Vector<const index_t>(ids.data(), length), Vector<const std::uint8_t>(loss_mask.data(), length),
             Rows<const float, Draft::target_width>(hidden.data(), length),
             Vector<const index_t>(anchors.data(), blocks), Vector<const std::uint8_t>(keep.data(), blocks)},
            Rows<const float, Draft::hidden>(last.data(), length)};
  }
};

void initialize(Parameters<Draft, float>& parameters) {
  auto w = parameters.mutable_weights();
  std::uint64_t seed = 10;
  Draft::visit(w, Path{}, [&](const Path&, auto& view, auto) {
    if constexpr (std::remove_cvref_t<decltype(view)>::rank > 1) {
      fill(view.data(), view.size(), 1 / std::sqrt(static_cast<double>(view.row_size())), seed++);
    } else {
      std::fill_n(view.data(), view.size(), 1.0f);
    }
  });
}

}  // namespace

TEST_CASE("a DSpark step at 163,840 tokens, 512 slots, width 512: at most 0.4 GiB above parameters and gradients") {
  const Text text;
  Parameters<Draft, float> parameters;
  initialize(parameters);
  Gradients<Draft, float> gradients;
  auto d_w = gradients.weights();

  const std::size_t before = test::live_bytes();
  test::forget_peak();
  const auto start = std::chrono::steady_clock::now();
  Objective objective(1, length, blocks, {});
  const auto sums = objective.forward_backward(Cpu{2}, parameters.weights(), d_w, text.batch());
  const double peak = static_cast<double>(test::peak_bytes() - before) / gib;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  MESSAGE("peak ", peak, " GiB above ", static_cast<double>(before) / gib, " GiB, of it planned ",
          static_cast<double>(objective.peak_bytes()) / gib, ", ", seconds.count(), " s, loss ", sums.mean_loss());

  CHECK(peak <= 0.4);
  CHECK(peak * gib >= static_cast<double>(objective.peak_bytes()));  // the count counts
  // All slots are supervised, and all that is trained has learnt something.
  CHECK(sums.accept_rate[7].denominator == blocks);
  CHECK(std::isfinite(sums.mean_loss()));
  Draft::visit(d_w, Path{}, [&](const Path& path, auto& view, auto) {
    if (view.data() == nullptr) return;
    CAPTURE(path.str());
    double sum = 0;
    for (index_t i = 0; i < view.size(); ++i) sum += std::abs(static_cast<double>(view.data()[i]));
    CHECK(std::isfinite(sum));
    CHECK(sum > 0);
  });
}
