#include <k3spec/optimiser/ema.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <tests/optimiser/odd_model.hpp>
#include <tests/support/same_bits.hpp>

using namespace k3spec;
using Odd = test::OddModel;

namespace {

/// Parameters whose trained elements are what is asked for, and an average of them.
template <class T>
struct Averaged {
  using State = accumulate_t<T>;
  Parameters<Odd, T> parameters;
  AdamW<Odd, T> optimizer;
  Ema<Odd, T> average;

  explicit Averaged(double decay, double first)
      : optimizer({}, (set(parameters, first), parameters)), average(Cpu{1}, decay, parameters) {}

  static void set(Parameters<Odd, T>& to, double value) {
    to.initialize(1);
    std::fill_n(to.trainable().data(), to.trainable().size(), T(static_cast<State>(value)));
  }
  /// Update t, which makes all trained parameters `value`.
  void update(std::int64_t t, double value) {
    set(parameters, value);
    if constexpr (AdamW<Odd, T>::has_masters) {
      std::fill_n(optimizer.masters_data(), trainable_slots<Odd>, static_cast<State>(value));
    }
    optimizer.restore_counts(t, 0, 0);
    average.update(Cpu{2}, optimizer, parameters);
  }
  /// All elements of the average, which must be the same.
  double value() {
    const auto all = average.state();
    for (index_t i = 1; i < all.size(); ++i) REQUIRE(all(i) == all(0));
    return static_cast<double>(all(0));
  }
};

}  // namespace

TEST_CASE("the decay is warmed up") {
  // (1 + t) / (10 + t) is 2/11, 3/12, 4/13, ...; it passes 0.75 at t = 26 and 0.999 at t = 8990.
  CHECK(ema_decay(0.999, 1) == doctest::Approx(2.0 / 11).epsilon(1e-15));
  CHECK(ema_decay(0.999, 2) == 0.25);
  CHECK(ema_decay(0.999, 890) == doctest::Approx(0.99).epsilon(1e-15));
  CHECK(ema_decay(0.999, 8989) < 0.999);
  CHECK(ema_decay(0.999, 8991) == 0.999);
  CHECK(ema_decay(0.75, 25) < 0.75);
  CHECK(ema_decay(0.75, 27) == 0.75);
  CHECK(ema_decay(0.125, 1) == 0.125);
  CHECK(ema_decay(0.999, std::numeric_limits<std::int64_t>::max()) == 0.999);
}

TEST_CASE_TEMPLATE("an average begins as the parameters and follows them", T, float, bfloat16, double) {
  Averaged<T> run(0.25, 1);
  CHECK(run.value() == 1);
  // 2/11 of 1 and 9/11 of 12 are 10; from then on a quarter stays: 2.5 and 0.75 of -2, 0.25 and 0.75 of 0.625, then
  // what bfloat16, of eight bits, cannot say.
  const double rounding = std::is_same_v<T, double> ? 1e-15 : 1e-6;
  run.update(1, 12);
  CHECK(run.value() == doctest::Approx(10).epsilon(rounding));
  run.update(2, -2);
  CHECK(run.value() == doctest::Approx(1).epsilon(rounding));
  run.update(3, 0.625);
  CHECK(run.value() == doctest::Approx(0.71875).epsilon(rounding));
  run.update(100, 1.001);
  CHECK(run.value() == doctest::Approx(0.9304375).epsilon(rounding));
  const auto w = run.average.weights(run.parameters);
  CHECK(w.conv(8, 0, 3) == T(static_cast<accumulate_t<T>>(run.value())));
  CHECK(w.vector(76) == w.matrix(0, 0));
  CHECK(w.frozen.data() == run.parameters.weights().frozen.data());
}

TEST_CASE("what does not move keeps its bits, a zero of either sign, too") {
  for (const double still : {-0.0, 0.0, 0.1, 1e-30, -3.7e5}) {
    Averaged<float> run(0.9, still);
    const auto before = run.value();
    for (std::int64_t t = 1; t < 40; ++t) run.update(t, still);
    CHECK(run.value() == before);
    CHECK(std::signbit(run.value()) == std::signbit(still));
  }
}

TEST_CASE("an average's bits do not depend on the thread count, and one that is taken over goes on") {
  Parameters<Odd, bfloat16> parameters;
  parameters.initialize(1);
  const auto run = [&](int threads, bool taken_over) {
    const Cpu cpu{threads};
    AdamW<Odd, bfloat16> optimizer({}, parameters);
    Ema<Odd, bfloat16> first(cpu, 0.5, parameters), second(cpu, 0.5, parameters);
    Gradients<Odd, bfloat16> gradients;
    Parameters<Odd, bfloat16> moved;
    std::copy_n(parameters.all().data(), parameters.all().size(), moved.all().data());
    std::vector<float> all;
    for (std::uint64_t step = 0; step < 4; ++step) {
      draw_gradients(gradients, step);
      optimizer.step(cpu, 1e-2, moved, gradients);
      Ema<Odd, bfloat16>& used = taken_over && step >= 2 ? second : first;
      if (&used == &second && step == 2) {
        std::copy_n(first.state().data(), first.state().size(), second.state().data());
        second.round(cpu);
        CHECK(second.weights(moved).matrix(3, 4) == first.weights(moved).matrix(3, 4));
      }
      used.update(cpu, optimizer, moved);
      all.assign(used.state().data(), used.state().data() + used.state().size());
      const auto w = used.weights(moved).matrix;
      for (index_t i = 0; i < w.size(); ++i) all.push_back(static_cast<float>(w.data()[i]));
    }
    return all;
  };
  const auto once = run(1, false);
  CHECK(run(3, false) == once);
  CHECK(run(2, true) == once);
}
