#include "k3_tiny.hpp"

using namespace k3spec;
using Config = configs::KimiK3Tiny;

namespace {

/// k3-tiny in float, every weight rounded to bfloat16.
test::Runner<Config, float>& rounded() {
  static auto* const runner = [] {
    auto* r = new test::Runner<Config, float>;
    auto from = test::tiny<bfloat16>().parameters.mutable_weights();
    auto to = r->parameters.mutable_weights();
    const auto source = io::slots<K3Target<Config>>(from), target = io::slots<K3Target<Config>>(to);
    for (std::size_t i = 0; i < source.size(); ++i) {
      index_t count = 1;
      for (const index_t n : source[i].shape) count *= n;
      const auto* x = static_cast<const bfloat16*>(source[i].data);
      std::copy_n(x, count, static_cast<float*>(target[i].data));
    }
    r->freeze();
    return r;
  }();
  return *runner;
}

template <class T>
test::Run<T> run(const test::Runner<Config, T>& runner, const std::vector<index_t>& ids, index_t sequences) {
  TargetState<Config, T> state({sequences, static_cast<index_t>(ids.size()) / sequences});
  return runner(state, ids);
}

}  // namespace

TEST_CASE("in bfloat16 the target stays near its float self") {
  auto ids = test::tiny_reference().values<index_t>("input.prompts");
  ids.resize(8 * 64);
  const auto exact = run(rounded(), ids, 8);
  const auto stored = run(test::tiny<bfloat16>(), ids, 8);
  double squares = 0, difference = 0;
  for (std::size_t i = 0; i < exact.last.size(); ++i) {
    const double x = exact.last[i], d = static_cast<double>(static_cast<float>(stored.last[i])) - x;
    squares += x * x, difference += d * d;
  }
  const double error = std::sqrt(difference / squares);
  index_t agree = 0;
  std::vector<float> logits(stored.logits.begin(), stored.logits.end());
  const auto a = test::greedy_next(logits), b = test::greedy_next(exact.logits);
  for (std::size_t i = 0; i < a.size(); ++i) agree += a[i] == b[i] ? 1 : 0;
  MESSAGE("relative error of the last state ", error, ", the same first choice in ", agree, " of ", a.size());
  // Each of 16 sums is rounded to 2^-9 and reads rounded inputs: 2^-9 · sqrt(16 · a few) is 0.02.
  CHECK(error < 0.04);
  CHECK(error > 0);
  CHECK(agree >= 480);
}

TEST_CASE("bfloat16: chunks and rollback change no bit") {
  const auto& tiny = test::tiny<bfloat16>();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 90; ++i) ids.push_back(32 + (i * i) % 90);
  TargetState<Config, bfloat16> whole({1, 90}), cut({1, 90});
  const auto part = [&](index_t begin, index_t end) { return tiny.slice(ids, 1, begin, end); };
  tiny(whole, part(0, 80));
  tiny(cut, part(0, 70));
  tiny(cut, part(70, 85));
  cut.accept(0, 10);
  CHECK(tiny(cut, part(80, 90)) == tiny(whole, part(80, 90)));
}
