// Rotary positions on Cuda: Cpu's bits for all kinds of positions, odd parts, forward and back, nothing beside them.
// (On a card, cos and sin are its own.)
#include <doctest/doctest.h>

#include <cmath>

#include <tests/cuda/layout.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>

using namespace k3spec;
using test::check_both_within;
using test::Layout;
using test::Strided;

namespace {

/// What cos and sin of a card may make of it: a few roundings.
template <class T>
constexpr double within = std::is_same_v<T, double>  ? 1e-15
                          : std::is_same_v<T, float> ? 1e-6
                                                     : 0x1p-7;

/// A slice of 6 columns, stretched as YaRN does.
struct Six : configs::DeepSeekV3 {
  static constexpr index_t qk_rope_head_dim = 6;
};

/// Rotated forward, and then a step further back.
template <class Heads, class T, class D>
std::vector<double> rotated(const RopeFrequencies<Heads::rope>& frequencies, const Layout& layout,
                            const RotaryPositions& positions) {
  const auto& device = test::device<D>(2);
  Layout of_q = layout, of_k = layout;
  of_q.n = Heads::count * Heads::qk, of_k.n = Heads::rope;
  Strided<T, D> q(of_q, 1), k(of_k, 2);
  auto all = std::vector<double>();
  const auto keep = [&] {
    for (const double v : q.get()) all.push_back(v);
    for (const double v : k.get()) all.push_back(v);
  };
  rope_forward(device, RopeProblem<Heads, element_t<D, T>>{frequencies, positions, q.matrix(), k.matrix()});
  keep();
  rope_backward(device, RopeProblem<Heads, element_t<D, T>>{frequencies, positions.shifted(1), q.matrix(), k.matrix()});
  keep();
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("rotations are Cpu's, bit for bit: one head or seventeen, odd parts, rows apart", T, float, double,
                   bfloat16) {
  // One group of heads and the key's slice with it; the key's slice alone in the last group; several groups.
  const auto& six = rope_frequencies<Six>();
  for (const index_t rows : {0, 1, 31, 300}) {
    CAPTURE(rows);
    for (const Layout& layout : {Layout{rows, 0}, Layout{rows, 0, 1, 3}}) {
      const RotaryPositions counted{nullptr, 7, 0, 2};
      check_both_within(within<T>, [&]<class D>(std::type_identity<D>) {
        return rotated<AttentionHeads<1, 0, 6, 1>, T, D>(six, layout, counted);
      });
      check_both_within(within<T>, [&]<class D>(std::type_identity<D>) {
        return rotated<AttentionHeads<8, 3, 6, 1>, T, D>(six, layout, counted);
      });
    }
  }
  check_both_within(within<T>, [&]<class D>(std::type_identity<D>) {
    return rotated<AttentionHeads<17, 5, 64, 1>, T, D>(rope_frequencies<configs::DeepSeekV3>(), {9, 0}, {nullptr, 0});
  });
}

TEST_CASE("positions that are given, far out, and further by a step: Cpu's bits") {
  // Angles beyond what cos and sin reduce in one step, and positions that float32 does not hold.
  const std::vector<index_t> given{0, 7, 3, 262143, 1048575, 16777217, -5};
  const auto rows = static_cast<index_t>(given.size());
  check_both_within(within<float>, [&]<class D>(std::type_identity<D>) {
    test::Mirror<index_t, D> ids(given);
    const RotaryPositions positions{bare(ids.vector().data()), 3, 100, 4};
    return rotated<AttentionHeads<2, 1, 6, 1>, float, D>(rope_frequencies<Six>(), {rows, 0}, positions);
  });
  // By hand: a quarter turn, as near as float32 comes, takes (1, 0) to (0, 1).
  RopeFrequencies<2> quarter{1.57079637f};
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<double, Cuda> q(std::vector<double>{9, 1, 0, 9, 0, 1}), k(std::vector<double>{2, 0});
  using T = element_t<Cuda, double>;
  rope_forward(cuda, RopeProblem<AttentionHeads<2, 1, 2, 1>, T>{quarter, {nullptr, 0, 1}, q.matrix(6), k.matrix(2)});
  const auto turned = q.get(), key = k.get();
  const double wanted[] = {9, 0, 1, 9, -1, 0}, wanted_key[] = {0, 2};
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(turned[i] - wanted[i]) < 1e-7);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::abs(key[i] - wanted_key[i]) < 2e-7);
}

TEST_CASE("rotations: more rows than a grid's second axis has blocks") {
  check_both_within(within<bfloat16>, []<class D>(std::type_identity<D>) {
    return rotated<AttentionHeads<1, 0, 2, 1>, bfloat16, D>({0.25f}, {66000, 0}, {nullptr, 0, 5});
  });
}

TEST_CASE("rotations: one launch for queries and keys, without a wait, and none for nothing") {
  using Heads = AttentionHeads<17, 0, 2, 1>;
  using T = element_t<Cuda, float>;
  test::Mirror<float, Cuda> q(std::vector<float>(68)), k(std::vector<float>(4));
  for (const index_t rows : {2, 0}) {
    const RopeProblem<Heads, T> problem{{}, {}, q.matrix(34).rows(0, rows), k.matrix(2).rows(0, rows)};
    test::check_launches(rows / 2, [&] { rope_forward(test::device<Cuda>(), problem); });
  }
}

TEST_CASE("rotations: host memory is refused") {
  using Problem = RopeProblem<AttentionHeads<1, 0, 2, 1>, element_t<Cuda, float>>;
  const Cuda& cuda = test::device<Cuda>();
  std::vector<float> memory(4);
  const std::vector<index_t> ids(2);
  test::Mirror<float, Cuda> x(memory);
  const auto host = test::taken_for_the_cards(Matrix<float>(memory.data(), 2, 2));
  const std::string found = ": found host memory, wanted device memory";
  CHECK_THROWS_WITH_AS(rope_forward(cuda, Problem{{}, {}, host, x.matrix(2)}), ("rope: q" + found).c_str(), Error);
  CHECK_THROWS_WITH_AS(rope_backward(cuda, Problem{{}, {}, x.matrix(2), host}), ("rope: k_rope" + found).c_str(),
                       Error);
  CHECK_THROWS_WITH_AS(rope_forward(cuda, Problem{{}, {ids.data()}, x.matrix(2), x.matrix(2)}),
                       ("rope: positions" + found).c_str(), Error);
}
