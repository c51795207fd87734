#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include <k3spec/backend/cpu/packet.hpp>

using namespace k3spec;

namespace {

using F = Packet<float>;
constexpr float inf = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

template <class S>
auto bits_of(S x) {
  if constexpr (sizeof(S) == 4) {
    return std::bit_cast<std::uint32_t>(x);
  } else {
    return std::bit_cast<std::uint64_t>(x);
  }
}

template <class S>
bool same(S a, S b) {
  return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
}

/// |found - wanted| in units of the last place of a float; 0 for equal infinities and NaNs, infinite if just one is.
double ulps(float found, double wanted) {
  const float nearest = static_cast<float>(wanted);
  if (same(found, nearest)) return 0;
  if (!std::isfinite(found) || !std::isfinite(nearest)) return inf;
  int exponent = 0;
  std::frexp(wanted, &exponent);
  return std::fabs(found - wanted) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// The worst error over floats spread evenly over all 2^32 bit patterns: every sign and exponent, NaNs, subnormals.
template <class Found, class Wanted>
double worst_ulps(Found found, Wanted wanted) {
  double worst = 0;
  F::Lanes x;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32U);) {
    for (float& lane : x) lane = std::bit_cast<float>(static_cast<std::uint32_t>(u)), u += 503;
    const auto y = found(F(x)).lanes();
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], wanted(static_cast<double>(x[i]))));
  }
  return worst;
}

/// f of each special value, alone in a lane among others.
template <class Found>
float lane(Found found, float x, std::size_t at = 1) {
  F::Lanes lanes;
  lanes.fill(0.75f);
  lanes[at % lanes.size()] = x;
  return found(F(lanes)).lanes()[at % lanes.size()];
}

}  // namespace

TEST_CASE("exp, log and tanh of float packets are within 2 ulp for every kind of argument") {
  CHECK(worst_ulps([](F x) { return exp(x); }, [](double x) { return std::exp(x); }) <= 2);
  CHECK(worst_ulps([](F x) { return log(x); }, [](double x) { return std::log(x); }) <= 2);
  CHECK(worst_ulps([](F x) { return tanh(x); }, [](double x) { return std::tanh(x); }) <= 2);
}

TEST_CASE("exp, log and tanh of one float are those of a packet, bit for bit, for every kind of argument") {
  std::uint64_t different = 0;
  F::Lanes x;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32U);) {
    for (float& lane : x) lane = std::bit_cast<float>(static_cast<std::uint32_t>(u)), u += 1009;
    const auto e = exp(F(x)).lanes(), l = log(F(x)).lanes(), t = tanh(F(x)).lanes();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!same(e[i], exp(x[i])) || !same(l[i], log(x[i])) || !same(t[i], tanh(x[i]))) ++different;
    }
  }
  CHECK(different == 0);
}

TEST_CASE("exp, log and tanh at the edges") {
  const auto e = [](F x) { return exp(x); };
  const auto l = [](F x) { return log(x); };
  const auto t = [](F x) { return tanh(x); };
  CHECK(same(lane(e, -inf), 0.0f));
  CHECK(same(lane(e, -1e30f), 0.0f));
  CHECK(same(lane(e, -104.5f), 0.0f));
  CHECK(same(lane(e, -0.0f), 1.0f));
  CHECK(lane(e, 89.0f) == inf);
  CHECK(lane(e, inf) == inf);
  CHECK(std::isnan(lane(e, nan_value)));
  CHECK(lane(l, 0.0f) == -inf);
  CHECK(lane(l, -0.0f) == -inf);
  CHECK(same(lane(l, 1.0f), 0.0f));
  CHECK(std::isnan(lane(l, -1.0f)));
  CHECK(lane(l, inf) == inf);
  CHECK(same(lane(t, -0.0f), -0.0f));
  CHECK(same(lane(t, 1e-40f), 1e-40f));
  CHECK(lane(t, inf) == 1);
  CHECK(lane(t, -inf) == -1);
  CHECK(std::isnan(lane(t, nan_value)));
}

TEST_CASE("an element's result does not depend on its lane or its neighbours") {
  for (float x : {0.3f, -5.5f, 87.0f, 1e-39f, -0.0f}) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(F::width); ++at) {
      CHECK(same(lane([](F p) { return exp(p); }, x, at), exp(F(x)).lanes()[0]));
      CHECK(same(lane([](F p) { return tanh(p); }, x, at), tanh(F(x)).lanes()[0]));
      CHECK(same(lane([](F p) { return log(p); }, x, at), log(F(x)).lanes()[0]));
    }
  }
}

TEST_CASE_TEMPLATE("arithmetic equals the scalar one in every bit", S, float, double) {
  using P = Packet<S>;
  const S big = std::numeric_limits<S>::max(), tiny = std::numeric_limits<S>::denorm_min();
  const S unbounded = std::numeric_limits<S>::infinity();
  const std::vector<S> values{0,       S{-0.0},      1, S{1} / 3, S(-0.1), tiny,   -tiny,     big,        -big,
                              S(1e-7), S(12345.678), 2, 3,        7,       S(0.7), unbounded, -unbounded, S(NAN)};
  const auto first = [](P p) { return p.lanes()[0]; };
  bool all = true;
  for (S a : values) {
    all = all && same(first(sqrt(P(a))), std::sqrt(a)) && same(first(abs(P(a))), std::abs(a)) && same(first(-P(a)), -a);
    for (S b : values) {
      all = all && same(first(P(a) + P(b)), a + b) && same(first(P(a) - P(b)), a - b);
      all = all && same(first(P(a) * P(b)), a * b) && same(first(P(a) / P(b)), a / b);
      all = all && same(first(fma(P(a), P(b), P(S(0.3)))), std::fma(a, b, S(0.3)));
      all = all && same(first(min(P(a), P(b))), min(a, b)) && same(first(max(P(a), P(b))), max(a, b));
      all = all && same(first(select(less(P(a), P(b)), P(1), P(2))), select(less(a, b), S(1), S(2)));
      all = all && same(first(select(greater(P(a), P(b)), P(1), P(2))), select(greater(a, b), S(1), S(2)));
      all = all && same(first(select(equal(P(a), P(b)), P(1), P(2))), select(equal(a, b), S(1), S(2)));
    }
  }
  CHECK(all);
}

TEST_CASE("double functions are the standard library's") {
  const Packet<double> x(-710.25);
  CHECK(same(exp(x).lanes()[1], std::exp(-710.25)));
  CHECK(same(tanh(Packet<double>(0.4)).lanes()[1], std::tanh(0.4)));
  CHECK(same(log(Packet<double>(0.4)).lanes()[1], std::log(0.4)));
}

TEST_CASE_TEMPLATE("partial loads and stores touch nothing else", T, float, bfloat16) {
  for (index_t n = 0; n <= F::width; ++n) {
    std::vector<T> in(static_cast<std::size_t>(n), T(2.5f));  // a sanitizer sees a read past the end
    const auto lanes = F::load_first(in.data(), n).lanes();
    for (index_t i = 0; i < F::width; ++i) CHECK(lanes[static_cast<std::size_t>(i)] == (i < n ? 2.5f : 0.0f));
    std::vector<T> out(static_cast<std::size_t>(F::width + 1), T(-1.0f));
    F(3.0f).store_first(out.data() + 1, n);
    for (index_t i = 0; i <= F::width; ++i) {
      CHECK(static_cast<float>(out[static_cast<std::size_t>(i)]) == (i >= 1 && i <= n ? 3.0f : -1.0f));
    }
  }
}

TEST_CASE("bfloat16 is widened exactly and rounded like bfloat16(float)") {
  std::array<bfloat16, static_cast<std::size_t>(F::width)> stored;
  bool all = true;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32U); u += 4099) {  // coprime to the 2^16 of a tie
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(u));
    const float tie = std::bit_cast<float>((static_cast<std::uint32_t>(u) & 0xffff0000U) | 0x8000U);
    for (float v : {x, tie}) {
      F(v).store(stored.data());
      all = all && stored[1].bits == bfloat16(v).bits;
      all = all && same(round_to<bfloat16>(F(v)).lanes()[1], static_cast<float>(bfloat16(v)));
      all = all && same(F::load(stored.data()).lanes()[1], static_cast<float>(bfloat16(v)));
    }
  }
  CHECK(all);
  CHECK(same(round_to<float>(F(0.1f)).lanes()[0], 0.1f));
}

TEST_CASE_TEMPLATE("sum and maximum run over all lanes", S, float, double) {
  typename Packet<S>::Lanes x;
  S wanted = 0;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<S>(i * i) - 7, wanted += x[i];
  CHECK(sum(Packet<S>(x)) == wanted);
  CHECK(maximum(Packet<S>(x)) == x.back());
  CHECK(maximum(-Packet<S>(x)) == 7);
  CHECK(sum(S{3}) == S{3});
}
