// The laws of the EAGLE-3 draft with DeepSeek-V3's block, and what positions are to either block.
#include <doctest/doctest.h>

#include <tests/laws/check_laws.hpp>
#include <tests/laws/draft_laws.hpp>

using namespace k3spec;
using namespace k3spec::laws;

TEST_CASE("laws: Eagle3Draft with DeepSeek-V3's block, packed and not") {
  check<UnrollLaw<SmallDeepSeek>>({{1, 1}, {4, 5}, {1, 35}});
  check<UnrollLaw<SmallDeepSeek, Sequence::packed>>({{4, 5}});
  check<UnrollLaw<SmallDeepSeek31, Sequence::packed>>({{1, 1}, {4, 5}});
}

TEST_CASE("laws: the EAGLE-3 objective with DeepSeek-V3's block") {
  check<ObjectiveLaw<SmallDeepSeek>>({{1, 2}, {4, 6}});
}

namespace {

/// All results with positions as they are and with others: given in any order, far apart, or moved by `by`.
template <class Config, class T>
auto results(const std::vector<index_t>& order, index_t by, index_t apart) {
  Trial<UnrollLaw<Config, Sequence::packed>, T> trial({3, 9});
  auto& positions = trial.fixture().positions;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = by + apart * (order.empty() ? positions[i] : order[i % order.size()]);
  }
  trial.forward(), trial.backward();
  return trial.results();
}

}  // namespace

TEST_CASE_TEMPLATE("a K3 draft gives the same bits for any position ids, forward and backward", T, double, float,
                   bfloat16) {
  const auto wanted = results<Small, T>({}, 0, 1);
  CHECK(compare_bits(results<Small, T>({5, 3, 8, 1}, 7, 1000), wanted, "any order") == "");
  CHECK(compare_bits(results<Small, T>({}, 15962, 1), wanted, "moved") == "");
  CHECK(compare_bits(results<Small31, T>({2, 0}, -3, 64), results<Small31, T>({}, 0, 1), "3.1") == "");
}

TEST_CASE_TEMPLATE("a DeepSeek draft's results depend on distances between positions, and on nothing else of them", T,
                   double, float, bfloat16) {
  const auto plain = results<SmallDeepSeek, T>({}, 0, 1), others = results<SmallDeepSeek, T>({5, 3, 8, 1}, 0, 1);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(plain[i].name);
    CHECK(!same_bits(plain[i].values, others[i].values));
  }
  if constexpr (std::is_same_v<T, double>) {
    // Angles are float32's: at positions below 50 they are off by at most 50 · 2^-24.
    const auto moved = results<SmallDeepSeek, T>({}, 40, 1);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(plain[i].name);
      CHECK(distance(moved[i].values, plain[i].values) <= 100 * 50 * 0x1p-24 * norm(plain[i].values));
      CHECK(distance(others[i].values, plain[i].values) > 1e-3 * norm(plain[i].values));
    }
  }
}

TEST_CASE_TEMPLATE("a sequence of padding, one position, one sequence: finite, and nothing of it is learnt", T, double,
                   float, bfloat16) {
  const auto run = [](auto law, Shape shape) {
    Trial<decltype(law), T> trial(shape);
    std::fill(trial.fixture().loss_mask.begin(), trial.fixture().loss_mask.end(), std::uint8_t{0});
    trial.forward(), trial.backward();
    for (const auto& result : trial.results()) {
      CAPTURE(result.name);
      for (const double v : result.values) CHECK(v == 0);
    }
  };
  // Of four sequences, the last is padding only (laws::unmasked).
  for (const Shape shape : {Shape{1, 1}, Shape{4, 3}}) {
    run(ObjectiveLaw<Small>{}, shape), run(ObjectiveLaw<SmallDeepSeek>{}, shape);
    run(ObjectiveLaw<SmallDeepSeek31>{}, shape);
  }
}
