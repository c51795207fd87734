// Packets without vector registers, which nvcc gets, are the others bit for bit.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/packet_lanes.hpp>

using namespace k3spec;

namespace {

/// Every kind of float: spread over all bit patterns, with the special ones among them.
std::vector<float> floats() {
  std::vector<float> x{0.0f, -0.0f, 1.0f, std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32U); u += 20011) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(u)));
  }
  x.resize(x.size() / 64 * 64);
  return x;
}

template <class S, class A, class B>
bool same(const A& a, const B& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(S)) != 0) return false;
  }
  return true;
}

/// Calls f with both kinds of packets of three neighbouring runs of numbers.
template <class S, class F>
void check_same(F f) {
  using E = Packet<S>;
  using L = LanePacket<S>;
  static_assert(E::width == L::width && sizeof(E) == sizeof(L));
  std::vector<S> x;
  for (const float v : floats()) x.push_back(static_cast<S>(v));
  const auto w = static_cast<std::size_t>(E::width);
  bool all = true;
  for (std::size_t i = 0; i + 3 * w <= x.size(); i += w) {
    const S* p = x.data() + i;
    all = all && same<S>(f(E::load(p), E::load(p + w), E::load(p + 2 * w)).lanes(),
                         f(L::load(p), L::load(p + w), L::load(p + 2 * w)).lanes());
  }
  CHECK(all);
}

}  // namespace

TEST_CASE_TEMPLATE("each function of lanes is that of registers", S, float, double) {
  check_same<S>([](auto a, auto b, auto) { return a + b; });
  check_same<S>([](auto a, auto b, auto) { return a - b; });
  check_same<S>([](auto a, auto b, auto) { return a * b; });
  check_same<S>([](auto a, auto b, auto) { return a / b; });
  check_same<S>([](auto a, auto, auto) { return -a; });
  check_same<S>([](auto a, auto b, auto c) { return fma(a, b, c); });
  check_same<S>([](auto a, auto b, auto) { return min(a, b); });
  check_same<S>([](auto a, auto b, auto) { return max(a, b); });
  check_same<S>([](auto a, auto, auto) { return exp(a); });
  check_same<S>([](auto a, auto, auto) { return log(a); });
  check_same<S>([](auto a, auto, auto) { return tanh(a); });
  check_same<S>([](auto a, auto, auto) { return sqrt(a); });
  check_same<S>([](auto a, auto, auto) { return floor(a); });
  check_same<S>([](auto a, auto, auto) { return abs(a); });
  check_same<S>([](auto a, auto b, auto c) { return select(less(a, b), b, c); });
  check_same<S>([](auto a, auto b, auto c) { return select(greater(a, b), b, c); });
  check_same<S>([](auto a, auto b, auto c) { return select(equal(a, a), b, c); });
  check_same<S>([](auto a, auto, auto) { return round_to<S>(a); });
}

TEST_CASE("lanes round to bfloat16, load, store and turn a square as registers do") {
  check_same<float>([](auto a, auto, auto) { return round_to<bfloat16>(a); });
  using E = Packet<float>;
  using L = LanePacket<float>;
  constexpr auto w = static_cast<std::size_t>(E::width);
  const auto x = floats();
  for (index_t n = 0; n < E::width; ++n) {
    std::vector<bfloat16> a(w, bfloat16(9.0f)), b(w, bfloat16(9.0f));
    E::load_first(x.data() + 7, n).store_first(a.data(), n);
    L::load_first(x.data() + 7, n).store_first(b.data(), n);
    for (std::size_t i = 0; i < w; ++i) CHECK(a[i].bits == b[i].bits);
    CHECK(same<float>(E::load_first(a.data(), n).lanes(), L::load_first(b.data(), n).lanes()));
  }
  std::array<E, w> e;
  std::array<L, w> l;
  for (std::size_t i = 0; i < w; ++i) e[i] = E::load(x.data() + i * w), l[i] = L::load(x.data() + i * w);
  transpose(e), transpose(l);
  for (std::size_t i = 0; i < w; ++i) CHECK(same<float>(e[i].lanes(), l[i].lanes()));
  CHECK(detail::lane_registers == detail::packet_registers);
  const float few[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  CHECK(sum(E::load(few)) == sum(L::load(few)));
  CHECK(maximum(E::load(few)) == maximum(L::load(few)));
}
