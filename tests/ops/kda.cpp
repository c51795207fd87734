// Kimi delta attention's recurrence: tokens that are run together have the bits of tokens that come one at a time.
#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/ops/kda.hpp>

#include "tests/support/same_bits.hpp"

using namespace k3spec;

namespace {

constexpr index_t heads = 2;

/// What a sequence has and gives.
template <index_t Dim>
struct Sequence {
  using Layout = KdaLayout<float, Dim>;
  index_t tokens;
  Buffer<float> q, k, v, decay, beta, o, state, log;

  explicit Sequence(index_t n)
      : tokens(n),
        q(drawn(n * heads * Dim, 1, 0, 1)),
        k(drawn(n * heads * Dim, 2, 0, 0.3F)),
        v(drawn(n * heads * Dim, 3, 0, 1)),
        decay(drawn(n * heads * Dim, 4, 0.8F, 0.05F)),
        beta(drawn(n * heads, 5, 0.5F, 0.1F)),
        o(n * heads * Dim),
        state(heads * Layout::state_size),
        log(heads * n * Layout::log_size) {
    std::fill(state.begin(), state.end(), 0.0F);
    std::fill(log.begin(), log.end(), 0.0F);
  }

  /// Tokens [begin, begin + count), behind those that are pending.
  void run(index_t begin, index_t count, index_t pending, bool logged) {
    const auto part = [&](auto& x) {
      return Matrix<float>(x.data() + begin * heads * Dim, Extents<dyn, dyn>(count, heads * Dim), heads * Dim);
    };
    const KdaSequence<float> sequence{{state.data(), log.data(), {}, tokens}, 0, count, pending, logged};
    kda_recurrence(Cpu{1}, KdaRecurrence<float, Dim>{part(q), part(k), part(v), part(decay),
                                                     Matrix<const float>(beta.data() + begin * heads, count, heads),
                                                     part(o), &sequence, 1});
  }

 private:
  static Buffer<float> drawn(index_t n, std::uint64_t seed, float mean, float deviation) {
    Buffer<float> x(n);
    for (index_t i = 0; i < n; ++i) {
      x[i] = mean + deviation * static_cast<float>(Philox(seed).normal(static_cast<std::uint64_t>(i)));
    }
    return x;
  }
};

bool equal(const Buffer<float>& a, const Buffer<float>& b) {
  return test::same_bits(std::vector<float>(a.begin(), a.end()), std::vector<float>(b.begin(), b.end()));
}

template <index_t Dim>
void check(index_t tokens) {
  CAPTURE(Dim);
  CAPTURE(tokens);
  Sequence<Dim> single(tokens), together(tokens), logged(tokens);
  for (index_t t = 0; t < tokens; ++t) single.run(t, 1, 0, false);
  together.run(0, tokens, 0, false);
  CHECK(equal(single.o, together.o));
  CHECK(equal(single.state, together.state));
  logged.run(0, tokens, 0, true);
  CHECK(equal(single.o, logged.o));
  CHECK(std::all_of(logged.state.begin(), logged.state.end(), [](float x) { return x == 0; }));
  logged.run(0, 0, tokens, false);
  CHECK(equal(single.state, logged.state));
}

}  // namespace

TEST_CASE("Kimi delta attention: tokens together have the bits of tokens one at a time, and so has what a log keeps") {
  for (const index_t tokens : {1, 2, 3, 9}) {
    check<1>(tokens);
    check<19>(tokens);
    check<32>(tokens);
    check<128>(tokens);
  }
}
