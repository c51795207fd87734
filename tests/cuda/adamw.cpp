// AdamW and an average of what it moves take on Cuda Cpu's steps, bit for bit, those that change nothing among them;
// Muon's differ by its products.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <tests/cuda/device.hpp>
#include <tests/optimiser/odd_model.hpp>
#include <tests/support/same_bits.hpp>
#include <k3spec/optimiser/ema.hpp>
#include <k3spec/optimiser/muon.hpp>

using namespace k3spec;
using test::OddModel;

namespace {

template <class V>
void append(std::vector<double>& to, const V& view) {
  for (index_t i = 0; i < view.size(); ++i) to.push_back(static_cast<double>(view.data()[i]));
}

/// All that a step may change (and what is frozen), after each of six steps, of which the third and fourth are skipped.
template <class T, class D>
std::vector<double> train() {
  using S = accumulate_t<T>;
  const auto& device = test::device<D>();
  Parameters<OddModel, T> on_host;
  on_host.initialize(7);
  Parameters<OddModel, T, D> parameters(device);
  upload<T>(device, on_host.all(), parameters.all());
  Gradients<OddModel, T> drawn, zero;
  Gradients<OddModel, T, D> gradients(device);
  AdamW<OddModel, T, D> optimizer(device, {.weight_decay = 0.25, .max_grad_norm = 3.0}, parameters);
  Ema<OddModel, T, D> average(device, 0.3, parameters);
  std::vector<double> all;
  const auto fetch = [&](auto weights) {
    const index_t slots = trainable_slots<OddModel>;
    Gradients<OddModel, T> copy;
    download<S>(device, Vector<const element_t<D, S>>(weights.matrix.data(), slots), copy.flat());
    append(all, copy.flat());
  };
  for (std::uint64_t step = 0; step < 6; ++step) {
    draw_gradients(drawn, step);
    const auto flat = drawn.flat();
    if (step == 0) std::fill_n(flat.data(), flat.size(), S(0));  // decay alone
    if (step == 2) flat(flat.size() - 40) = std::numeric_limits<S>::quiet_NaN();
    if (step == 3) drawn.weights().matrix(122, 44) = -std::numeric_limits<S>::infinity();
    upload<S>(device, flat, gradients.flat());
    const auto report = optimizer.step(device, 1e-2, parameters, gradients);
    CHECK(report.skipped == (step == 2 || step == 3));
    all.push_back(report.grad_norm);
    download<T>(device, parameters.all(), on_host.all());
    append(all, on_host.all());
    for (const T v : std::vector<T>(on_host.weights().frozen.data(), on_host.weights().frozen.data() + 31)) {
      REQUIRE(static_cast<double>(v) == 1);
    }
    fetch(optimizer.first_moments());
    fetch(optimizer.second_moments());
    if constexpr (AdamW<OddModel, T, D>::has_masters) fetch(optimizer.masters());
    if (!report.skipped) average.update(device, optimizer, parameters);
    fetch(average.averages());
    Parameters<OddModel, T> rounded;
    const auto w = average.weights(parameters).matrix;
    download<T>(device, Vector<const element_t<D, T>>(w.data(), w.size()), Vector<T>(rounded.all().data(), w.size()));
    append(all, rounded.all());
  }
  CHECK(optimizer.steps() == 4);
  CHECK(optimizer.skipped() == 2);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE(
    "six steps of AdamW, two of them skipped: parameters, moments, masters, norms and an average are Cpu's", T, float,
    double, bfloat16) {
  CHECK(test::same_bits(train<T, Cuda>(), train<T, Cpu>()));
}

namespace {

/// The parameters after three steps.
template <class T, class D>
std::vector<double> train_with_muon() {
  using S = accumulate_t<T>;
  const auto& device = test::device<D>();
  Parameters<OddModel, T> on_host;
  on_host.initialize(8);
  Parameters<OddModel, T, D> parameters(device);
  upload<T>(device, on_host.all(), parameters.all());
  Gradients<OddModel, T> drawn;
  Gradients<OddModel, T, D> gradients(device);
  AdamW<OddModel, T, D> rest(device, {.weight_decay = 0.25, .max_grad_norm = 3.0}, parameters);
  Muon<OddModel, T, D> muon(device, {});
  for (std::uint64_t step = 0; step < 3; ++step) {
    draw_gradients(drawn, step);
    upload<S>(device, drawn.flat(), gradients.flat());
    CHECK_FALSE(muon.step(device, 1e-2, rest, parameters, gradients).skipped);
  }
  download<T>(device, parameters.all(), on_host.all());
  std::vector<double> all;
  append(all, on_host.all());
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("three steps of Muon come to Cpu's parameters", T, float, double, bfloat16) {
  const auto found = train_with_muon<T, Cuda>(), wanted = train_with_muon<T, Cpu>();
  double most = 0, apart = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(wanted[i])), apart = std::max(apart, std::abs(found[i] - wanted[i]));
  }
  CHECK(most > 0.1);
  // A master that is off by a rounding may round to bfloat16's next number.
  CHECK(apart <= (std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 2e-5 : 0x1p-8) * most);
}
