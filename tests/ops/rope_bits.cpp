// A rotation's bits, in whatever loop the compiler makes of it: this file alone is compiled with -O3, where g++ 12
// makes fused multiply-adds of a plain loop over pairs that are turned, whatever -ffp-contract says.
#include <k3spec/ops/rope.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <k3spec/core/rng.hpp>

using namespace k3spec;

namespace {

/// Rounded, and never part of another operation.
template <class S>
S rounded(S x) {
  volatile S kept = x;
  return kept;
}

/// \returns how many numbers of `rows` rotated rows have other bits than each operation rounded for itself gives
template <class T, index_t Rope>
index_t different(index_t rows, Rotation to) {
  using S = accumulate_t<T>;
  using Heads = AttentionHeads<3, 5, Rope, 4>;
  using Bits = std::conditional_t<sizeof(S) == 8, std::uint64_t, std::uint32_t>;
  RopeFrequencies<Rope> frequencies;
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0f / static_cast<float>(1 + 3 * i);
  std::vector<T> q(static_cast<std::size_t>(rows * Heads::count * Heads::qk)), k(static_cast<std::size_t>(rows * Rope));
  const Philox rng(7);
  std::uint64_t n = 0;
  for (T& x : q) x = static_cast<T>(static_cast<S>(rng.normal(n++)));
  for (T& x : k) x = static_cast<T>(static_cast<S>(rng.normal(n++)));
  const std::vector<T> q_before = q, k_before = k;
  const RopeProblem<Heads, T> problem{frequencies,
                                      {nullptr, 0, 11},
                                      Matrix<T>(q.data(), rows, Heads::count * Heads::qk),
                                      Matrix<T>(k.data(), rows, Rope)};
  to == Rotation::forward ? rope_forward(Cpu{1}, problem) : rope_backward(Cpu{1}, problem);

  index_t wrong = 0;
  const auto check = [&](const T* before, const T* after, index_t row) {
    for (index_t i = 0; i < Rope / 2; ++i) {
      const float angle = rounded(static_cast<float>(11 + row) * frequencies[static_cast<std::size_t>(i)]);
      const S c = std::cos(static_cast<S>(angle)), sine = std::sin(static_cast<S>(angle));
      const S s = to == Rotation::back ? -sine : sine;
      const S a = static_cast<S>(before[2 * i]), b = static_cast<S>(before[2 * i + 1]);
      const T first = static_cast<T>(rounded(rounded(a * c) - rounded(b * s)));
      const T second = static_cast<T>(rounded(rounded(a * s) + rounded(b * c)));
      const auto bits = [](T x) { return std::bit_cast<Bits>(static_cast<S>(x)); };
      wrong += (bits(first) != bits(after[2 * i]) ? 1 : 0) + (bits(second) != bits(after[2 * i + 1]) ? 1 : 0);
    }
  };
  for (index_t r = 0; r < rows; ++r) {
    for (index_t h = 0; h < Heads::count; ++h) {
      const index_t at = (r * Heads::count + h) * Heads::qk + Heads::nope;
      check(q_before.data() + at, q.data() + at, r);
    }
    check(k_before.data() + r * Rope, k.data() + r * Rope, r);
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("a rotation rounds every operation for itself, however it is compiled", T, float, double, bfloat16) {
  for (const Rotation to : {Rotation::forward, Rotation::back}) {
    CHECK(different<T, 8>(50, to) == 0);
    CHECK(different<T, 2>(50, to) == 0);
    CHECK(different<T, 14>(50, to) == 0);
    CHECK(different<T, 64>(50, to) == 0);
  }
}
