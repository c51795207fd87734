#pragma once
/// \file
/// A packet of lanes without vector registers, in plain C++ that a compiler may turn into vector instructions itself:
/// the same width, functions and bits as backend/cpu/packet_eigen.hpp's, one lane of which is core/scalar_math.hpp's.
/// defines: LanePacket, LaneMask, and for them fma, exp, log, tanh, sqrt, floor, abs, min, max, less, greater, equal,
///          select, sum, maximum, round_to, prefetch, transpose

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <utility>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/float_math.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
// What the widest register of the target holds, and how many there are.
#if defined(__AVX512F__)
inline constexpr std::size_t lane_bytes = 64;
inline constexpr index_t lane_registers = 32;
#elif defined(__AVX__)
inline constexpr std::size_t lane_bytes = 32;
inline constexpr index_t lane_registers = 16;
#elif defined(__aarch64__)
inline constexpr std::size_t lane_bytes = 16;
inline constexpr index_t lane_registers = 32;
#else
inline constexpr std::size_t lane_bytes = 16;
inline constexpr index_t lane_registers = 16;
#endif
}  // namespace detail

/// `width` numbers of type S (float or double).
template <std::floating_point S>
struct LanePacket {
  static constexpr index_t width = static_cast<index_t>(detail::lane_bytes / sizeof(S));
  using Lanes = std::array<S, static_cast<std::size_t>(width)>;

  alignas(detail::lane_bytes) Lanes lane;

  LanePacket() = default;
  K3SPEC_HOST_DEVICE LanePacket(S value) { lane.fill(value); }
  K3SPEC_HOST_DEVICE explicit LanePacket(const Lanes& lanes) : lane(lanes) {}

  /// `width` elements, of any alignment.
  template <class T>
  K3SPEC_HOST_DEVICE static LanePacket load(const T* p) {
    return load_first(p, width);
  }
  /// The first n <= width elements, 0 in the other lanes; nothing past them is read.
  template <class T>
  K3SPEC_HOST_DEVICE static LanePacket load_first(const T* p, index_t n) {
    LanePacket x(S(0));
    for (index_t i = 0; i < n; ++i) x.lane[static_cast<std::size_t>(i)] = static_cast<S>(p[i]);
    return x;
  }
  template <class T>
  K3SPEC_HOST_DEVICE void store(T* p) const {
    store_first(p, width);
  }
  /// Writes the first n <= width elements, each rounded once, and nothing past them.
  template <class T>
  K3SPEC_HOST_DEVICE void store_first(T* p, index_t n) const {
    for (index_t i = 0; i < n; ++i) p[i] = static_cast<T>(lane[static_cast<std::size_t>(i)]);
  }
  K3SPEC_HOST_DEVICE Lanes lanes() const { return lane; }
};

/// The lanes where a comparison holds.
template <std::floating_point S>
struct LaneMask {
  std::array<bool, static_cast<std::size_t>(LanePacket<S>::width)> lane;
};

namespace detail {
/// f of each lane of its operands (packets or masks of the same width).
template <class S, class F, class... X>
K3SPEC_HOST_DEVICE LanePacket<S> each_lane(F f, const X&... x) {
  LanePacket<S> y;
  for (std::size_t i = 0; i < y.lane.size(); ++i) y.lane[i] = f(x.lane[i]...);
  return y;
}
template <class S, class F>
K3SPEC_HOST_DEVICE LaneMask<S> compare_lanes(F f, const LanePacket<S>& a, const LanePacket<S>& b) {
  LaneMask<S> y;
  for (std::size_t i = 0; i < y.lane.size(); ++i) y.lane[i] = f(a.lane[i], b.lane[i]);
  return y;
}
/// Halves the lanes by f until one is left.
template <class S, class F>
K3SPEC_HOST_DEVICE S across_lanes(LanePacket<S> x, F f) {
  for (std::size_t half = x.lane.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) x.lane[i] = f(x.lane[i], x.lane[i + half]);
  }
  return x.lane[0];
}
}  // namespace detail

// Each is its namesake for one lane (core/scalar_math.hpp, core/float_math.hpp), lane by lane.
// clang-format off
/// Lane by lane, the sum.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> operator+(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return x + y; }, a, b); }
/// Lane by lane, the difference.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> operator-(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return x - y; }, a, b); }
/// Lane by lane, a · b.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> operator*(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return x * y; }, a, b); }
/// Lane by lane, a / b.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> operator/(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return x / y; }, a, b); }
/// Lane by lane, the negative.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> operator-(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return -x; }, a); }
/// Lane by lane, a · b + c, rounded once.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> fma(LanePacket<S> a, LanePacket<S> b, LanePacket<S> c) { return detail::each_lane<S>([](S x, S y, S z) { return fma(x, y, z); }, a, b, c); }
/// Lane by lane, the smaller one.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> min(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return min(x, y); }, a, b); }
/// Lane by lane, the larger one.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> max(LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](S x, S y) { return max(x, y); }, a, b); }
/// Lane by lane, e^a.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> exp(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return exp(x); }, a); }
/// Lane by lane, the natural logarithm.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> log(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return log(x); }, a); }
/// Lane by lane, the hyperbolic tangent.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> tanh(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return tanh(x); }, a); }
/// Lane by lane, the square root.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> sqrt(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return sqrt(x); }, a); }
/// Lane by lane, rounded down.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> floor(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return floor(x); }, a); }
/// Lane by lane, without the sign.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> abs(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return abs(x); }, a); }
/// Lane by lane, whether a < b.
template <class S> K3SPEC_HOST_DEVICE LaneMask<S> less(LanePacket<S> a, LanePacket<S> b) { return detail::compare_lanes<S>([](S x, S y) { return less(x, y); }, a, b); }
/// Lane by lane, whether a > b.
template <class S> K3SPEC_HOST_DEVICE LaneMask<S> greater(LanePacket<S> a, LanePacket<S> b) { return less(b, a); }
/// Lane by lane, whether a = b.
template <class S> K3SPEC_HOST_DEVICE LaneMask<S> equal(LanePacket<S> a, LanePacket<S> b) { return detail::compare_lanes<S>([](S x, S y) { return equal(x, y); }, a, b); }
/// Lane by lane, a where the mask holds, else b.
template <class S> K3SPEC_HOST_DEVICE LanePacket<S> select(LaneMask<S> m, LanePacket<S> a, LanePacket<S> b) { return detail::each_lane<S>([](bool k, S x, S y) { return select(k, x, y); }, m, a, b); }
/// All lanes added, in one order.
template <class S> K3SPEC_HOST_DEVICE S sum(LanePacket<S> x) { return detail::across_lanes(x, [](S a, S b) { return a + b; }); }
/// The largest of all lanes.
template <class S> K3SPEC_HOST_DEVICE S maximum(LanePacket<S> x) { return detail::across_lanes(x, [](S a, S b) { return max(a, b); }); }
/// Lane by lane, as the nearest value that T can store.
template <Element T, class S> K3SPEC_HOST_DEVICE LanePacket<S> round_to(LanePacket<S> a) { return detail::each_lane<S>([](S x) { return round_to<T>(x); }, a); }
// clang-format on

/// Asks for nothing: a compiler cannot.
template <class S>
void prefetch(const S*) {}

/// Turns a square of `width` packets: lane j of packet i becomes lane i of packet j.
template <class S>
void transpose(std::array<LanePacket<S>, static_cast<std::size_t>(LanePacket<S>::width)>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) std::swap(rows[i].lane[j], rows[j].lane[i]);
  }
}

}  // namespace K3SPEC_NAMESPACE
