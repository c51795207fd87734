// Which states a draft reads: layer ids as its conventions count them, and both streams as the target hands them out.
#include <k3spec/target/taps.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "configs.hpp"
#include "runner.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

using Ids = std::array<index_t, 3>;
using What = Tap::What;

constexpr Eagle3Conventions executed{.layer_ids = LayerIds::layers_executed};
using Block = BlockConventions<Slot::anchor_plus_k_plus_1>;

/// What attention residuals mix, in double, straight from their formula: values [n, hidden] scored by
/// Σ(value / rms · norm ⊙ proj).
std::vector<double> mixture(const std::vector<std::vector<double>>& values, const std::vector<double>& weights,
                            double eps) {
  std::vector<double> scores, out(weights.size());
  for (const auto& x : values) {
    double squares = 0, score = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    for (std::size_t j = 0; j < x.size(); ++j) score += x[j] * scale * weights[j];
    scores.push_back(std::exp(score));
  }
  double sum = 0;
  for (const double s : scores) sum += s;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] += scores[i] / sum * values[i][j];
  }
  return out;
}

template <class W>
std::vector<double> scoring(const W& mix) {
  std::vector<double> out(static_cast<std::size_t>(mix.norm.weight.size()));
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = mix.norm.weight.data()[j] * mix.proj.weight.data()[j];
  return out;
}

/// A target of six layers, blocks of three, with every state of a few tokens.
struct Small {
  using R = Runner<Case, double>;
  static constexpr index_t tokens = 7;
  R runner;
  Run<double> run;

  Small() {
    runner.parameters.initialize(11, 0.3);
    runner.freeze();
    TargetState<Case, double> state({1, tokens});
    run = runner(state, {3, 1, 4, 1, 5, 9, 2});
  }
  std::vector<double> row(Tap which, index_t r) const {
    const double* x = runner.tapped(run, which).row(r);
    return {x, x + R::hidden};
  }
  /// What stands beside the running sum after `layer`: the embedding, and each sum that ended a block.
  std::vector<std::vector<double>> values(index_t layer, index_t r) const {
    constexpr index_t block = *Case::attn_res_block_size;
    std::vector<std::vector<double>> all{row({What::embedding}, r)};
    for (index_t end = block - 1; end < layer; end += block) all.push_back(row({What::running_sum, end}, r));
    all.push_back(row({What::running_sum, layer}, r));
    return all;
  }
};

}  // namespace

TEST_CASE("layer ids of EAGLE-3, counted in either way") {
  CHECK(eagle3_taps(Ids{1, 3, 7}, 8) ==
        std::vector<Tap>{{What::running_sum, 1}, {What::running_sum, 3}, {What::running_sum, 7}});
  CHECK(eagle3_taps(Ids{1, 3, 7}, 8, executed) ==
        std::vector<Tap>{{What::running_sum, 0}, {What::running_sum, 2}, {What::running_sum, 6}});
  CHECK(eagle3_taps(Ids{2, 4, 8}, 8, executed) == eagle3_taps(Ids{1, 3, 7}, 8));
  const auto mixed = eagle3_taps(Ids{1, 3, 8}, 8, {AuxStream::residual_mixture, LayerIds::layers_executed});
  CHECK(mixed ==
        std::vector<Tap>{{What::residual_mixture, 0}, {What::residual_mixture, 2}, {What::residual_mixture, 7}});
}

TEST_CASE("ids that are no layer's are refused in the words of their counting") {
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{1, 3, 8}, 8), "aux layer id: found 8, wanted 0 to 7, counted as after_layer_0",
                       Error);
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{-1, 3, 7}, 8), doctest::Contains("aux layer id: found -1"), Error);
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{0, 3, 8}, 8, executed),
                       "aux layer id: found 0, wanted 1 to 8, counted as layers_executed", Error);
  CHECK_THROWS_AS(eagle3_taps(Ids{1, 3, 9}, 8, executed), Error);
  CHECK_THROWS_WITH_AS(block_taps(Ids{-2, 1, 2}, 8),
                       "target layer id: found -2, wanted -1 to 7, counted as after_layer_0", Error);
  CHECK_THROWS_WITH_AS(block_taps(Ids{-1, 1, 2}, 8, Block{.layer_ids = LayerIds::layers_executed}),
                       "target layer id: found -1, wanted 0 to 8, counted as layers_executed", Error);
}

TEST_CASE("no layer is read twice") {
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{2, 2, 2}, 8), "aux layer id: found 2 more than once, wanted different layers",
                       Error);
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{3, 1, 3}, 8, executed), doctest::Contains("found 3 more than once"), Error);
  CHECK_THROWS_WITH_AS(block_taps(Ids{-1, 7, -1}, 8),
                       "target layer id: found -1 more than once, wanted different layers", Error);
  CHECK_NOTHROW(eagle3_taps(Ids{7, 1, 3}, 8));
}

TEST_CASE("no number is too small or too large to be refused") {
  constexpr index_t least = std::numeric_limits<index_t>::min(), most = std::numeric_limits<index_t>::max();
  static_assert(layer_number(least, LayerIds::layers_executed) == least);
  static_assert(layer_number(least + 1, LayerIds::layers_executed) == least);
  static_assert(layer_id(most, LayerIds::layers_executed) == most);
  CHECK_THROWS_WITH_AS(eagle3_taps(Ids{least, 1, 3}, 8, executed),
                       "aux layer id: found -9223372036854775808, wanted 1 to 8, counted as layers_executed", Error);
  CHECK_THROWS_WITH_AS(block_taps(Ids{1, 3, least}, 8, Block{.layer_ids = LayerIds::layers_executed}),
                       "target layer id: found -9223372036854775808, wanted 0 to 8, counted as layers_executed", Error);
  CHECK_THROWS_AS(eagle3_taps(Ids{1, 3, most}, 8), Error);
}

TEST_CASE("block drafts: the embedding and the last layer are what they are in any stream") {
  const std::vector<Tap> sums{{What::embedding}, {What::running_sum, 3}, {What::post_norm}};
  const std::vector<Tap> mixtures{{What::embedding}, {What::residual_mixture, 3}, {What::post_norm}};
  CHECK(block_taps(Ids{-1, 3, 7}, 8) == sums);
  CHECK(block_taps(Ids{0, 4, 8}, 8, Block{.layer_ids = LayerIds::layers_executed}) == sums);
  CHECK(block_taps(Ids{0, 3, 7}, 8, Block{.layer_ids = LayerIds::layers_executed}) ==
        std::vector<Tap>{{What::embedding}, {What::running_sum, 2}, {What::running_sum, 6}});
  CHECK(block_taps(Ids{-1, 3, 7}, 8, Block{.aux_stream = AuxStream::residual_mixture}) == mixtures);
  CHECK(block_taps(Ids{0, 4, 8}, 8, Block{AuxStream::residual_mixture, LayerIds::layers_executed}) == mixtures);
}

TEST_CASE("the mixture after a layer is what the next layer's attention reads, and not the sum") {
  const Small small;
  const auto w = small.runner.parameters.weights();
  for (index_t layer = 0; layer < Case::num_hidden_layers; ++layer) {
    auto weights = scoring(w.output_attn_res);
    if (layer + 1 < Case::num_hidden_layers) {
      K3Target<Case>::with_layer(w, layer + 1,
                                 [&](auto, const auto& next) { weights = scoring(next.mix.self_attention_res); });
    }
    for (index_t r = 0; r < Small::tokens; ++r) {
      const auto found = small.row({What::residual_mixture, layer}, r), sum = small.row({What::running_sum, layer}, r);
      const auto wanted = mixture(small.values(layer, r), weights, Case::rms_norm_eps);
      double off = 0, apart = 0, size = 0;
      for (std::size_t j = 0; j < wanted.size(); ++j) {
        off = std::max(off, std::abs(found[j] - wanted[j]));
        apart = std::max(apart, std::abs(found[j] - sum[j]));
        size = std::max(size, std::abs(wanted[j]));
      }
      CAPTURE(layer);
      CAPTURE(r);
      CHECK(off < 1e-12 * size);
      CHECK(apart > 0.01 * size);
    }
  }
}
