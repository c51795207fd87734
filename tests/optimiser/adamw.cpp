#include <k3spec/optimiser/adamw.hpp>

#include <cmath>
#include <limits>

#include <tests/optimiser/odd_model.hpp>
#include <tests/parity/layers.hpp>

using namespace k3spec;
using parity::Small;

namespace {

using Odd = test::OddModel;

template <class T>
void draw(Gradients<Odd, T>& gradients, std::uint64_t step) {
  test::draw_gradients(gradients, step);
}

template <class T>
std::vector<T> copy(Vector<T> v) {
  return {v.data(), v.data() + v.size()};
}

}  // namespace

TEST_CASE("bfloat16 parameters are their float masters rounded, and masters go float's way") {
  Parameters<Odd, bfloat16> small;
  small.initialize(1);
  Parameters<Odd, float> wide;
  for (index_t i = 0; i < wide.trainable().size(); ++i) wide.trainable()(i) = small.trainable()(i);
  const AdamWOptions options{.weight_decay = 0.1};
  AdamW<Odd, bfloat16> a(options, small);
  AdamW<Odd, float> b(options, wide);
  Gradients<Odd, bfloat16> ga;
  Gradients<Odd, float> gb;
  for (std::uint64_t step = 0; step < 5; ++step) {
    draw(ga, step);
    draw(gb, step);
    CHECK(a.step(Cpu{}, 1e-4, small, ga).grad_norm == b.step(Cpu{}, 1e-4, wide, gb).grad_norm);
  }
  const auto masters = a.masters();
  const auto expected = wide.weights();
  CHECK(std::equal(expected.conv.data(), expected.conv.data() + expected.conv.size(), masters.conv.data()));
  for (index_t i = 0; i < wide.trainable().size(); ++i) {
    REQUIRE(small.trainable()(i).bits == bfloat16(wide.trainable()(i)).bits);
  }
  // Steps too small for bfloat16 to see must not be lost: that is what masters are for.
  CHECK(masters.matrix(0, 0) != static_cast<float>(small.weights().matrix(0, 0)));
}

TEST_CASE("only matrices decay, and what is frozen stays") {
  Parameters<Odd, float> parameters;
  parameters.initialize(2);
  const auto before = copy(parameters.trainable());
  const auto w = parameters.weights();
  Gradients<Odd, float> gradients;
  AdamW<Odd, float> optimizer({.weight_decay = 0.5}, parameters);
  optimizer.step(Cpu{}, 0.1, parameters, gradients);
  CHECK(w.matrix(122, 44) == doctest::Approx(0.95 * before[122 * 45 + 44]).epsilon(1e-6));
  CHECK(w.vector(0) == 1);
  CHECK(w.vector(76) == 1);
  CHECK(w.frozen(30) == 1);
  CHECK(w.conv(8, 0, 3) != before[static_cast<std::size_t>(w.conv.data() + 35 - parameters.trainable().data())]);
}

TEST_CASE("AdamW's bits do not depend on the thread count") {
  const auto train = [](int threads) {
    Parameters<Odd, float> parameters;
    parameters.initialize(3);
    Gradients<Odd, float> gradients;
    AdamW<Odd, float> optimizer({.weight_decay = 0.01}, parameters);
    std::vector<double> norms;
    for (std::uint64_t step = 0; step < 4; ++step) {
      draw(gradients, step);
      norms.push_back(optimizer.step(Cpu{threads}, 1e-2, parameters, gradients).grad_norm);
    }
    return std::pair(copy(parameters.trainable()), norms);
  };
  CHECK(train(1) == train(2));
  CHECK(train(1) == train(7));
}

TEST_CASE("a gradient that is not finite changes nothing, is counted, and too many in a row throw") {
  Parameters<Odd, double> parameters, before;
  parameters.initialize(4);
  Gradients<Odd, double> gradients;
  AdamW<Odd, double> optimizer({.max_skipped_in_a_row = 2}, parameters);
  draw(gradients, 0);
  optimizer.step(Cpu{}, 1e-3, parameters, gradients);
  const auto weights = copy(parameters.trainable());
  const double moment = optimizer.first_moments().matrix(0, 0);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    draw(gradients, 1);
    gradients.weights().conv(0, 0, 1) = bad;
    const auto report = optimizer.step(Cpu{}, 1e-3, parameters, gradients);
    CHECK(report.skipped);
    CHECK_FALSE(std::isfinite(report.grad_norm));
  }
  CHECK(copy(parameters.trainable()) == weights);
  CHECK(optimizer.first_moments().matrix(0, 0) == moment);
  CHECK(optimizer.steps() == 1);
  CHECK(optimizer.skipped() == 2);
  CHECK_THROWS_WITH_AS(optimizer.step(Cpu{}, 1e-3, parameters, gradients),
                       "gradient: found no finite norm in 3 steps in a row, wanted at most 2", Error);
  CHECK(copy(parameters.trainable()) == weights);
  CHECK(optimizer.skipped() == 2);  // a step that throws is none
  draw(gradients, 2);
  CHECK_FALSE(optimizer.step(Cpu{}, 1e-3, parameters, gradients).skipped);
  CHECK(optimizer.skipped_in_a_row() == 0);
  CHECK(optimizer.skipped() == 2);
}

TEST_CASE("the gradient's norm is that of all its elements, whatever their number") {
  for (const index_t n : {0, 1, 7, 8, 4095, 4096, 4097, 20001}) {
    std::vector<float> g(static_cast<std::size_t>(n));
    double sum = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = static_cast<float>(Philox(5).normal(i));
      sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    const double norm = GradientNorm<>(Cpu{}, n)(Cpu{}, Vector<const float>(g.data(), n));
    CHECK(norm == doctest::Approx(std::sqrt(sum)).epsilon(1e-13));
  }
  CHECK_THROWS_AS(GradientNorm<>(Cpu{}, 0)(Cpu{}, Vector<const float>(nullptr, 1)), Error);
  CHECK(clip_coefficient(0, 1) == 1);
  CHECK(clip_coefficient(4, 1) == 1 / 4.000001);
}

TEST_CASE("AdamW refuses options out of range") {
  Parameters<Small, float> parameters;
  const auto refuse = [&](const AdamWOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS((AdamW<Small, float>(options, parameters)), doctest::Contains(message), Error);
  };
  refuse({.beta1 = 1}, "AdamW: beta1: found 1");
  refuse({.beta2 = -0.1}, "AdamW: beta2: found -0.1");
  refuse({.eps = 0}, "AdamW: eps: found 0");
  refuse({.weight_decay = -1}, "AdamW: weight_decay: found -1");
  refuse({.max_grad_norm = 0}, "AdamW: max_grad_norm: found 0");
  refuse({.max_skipped_in_a_row = -1}, "AdamW: max_skipped_in_a_row: found -1");
}
