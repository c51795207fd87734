#pragma once
/// \file
/// The widest vector register the build has, as a value. The one file that includes Eigen; others include packet.hpp.
/// Each function here exists for plain float and double too (core/scalar_math.hpp), so that an expression runs on
/// packets and on scalars.
/// An element's result never depends on its lane. fma, sqrt, / and round_to are exact (one rounding, to nearest even);
/// exp, log and tanh are in packet_math.hpp. min and max are std::min and std::max: with a NaN they return their first
/// argument.
/// defines: Packet, Mask, fma, sqrt, floor, abs, min, max, less, greater, equal, select, round_to, prefetch

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

// Where nvcc reads this header by itself, Eigen is host code, too: it would turn its vectors off otherwise.
#if defined(__CUDACC__) && !defined(EIGEN_NO_CUDA)
#define EIGEN_NO_CUDA
#endif
// g++ 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/scalar_math.hpp>

// An intrinsic type as a template argument loses attributes that play no part here.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace K3SPEC_NAMESPACE {

namespace detail {
// Eigen's pmadd is fused only where the target has the instruction; elsewhere it would round twice.
#if defined(EIGEN_VECTORIZE_FMA) || defined(__ARM_FEATURE_FMA)
inline constexpr bool packet_fma = true;
#else
inline constexpr bool packet_fma = false;
#endif
// What Eigen has for x86 alone: sums of halves, and min and max as std::min and std::max are. Arm's have a NaN win.
#if defined(EIGEN_VECTORIZE_SSE)
inline constexpr bool predux_halves = true, pmin_is_std = true;
#else
inline constexpr bool predux_halves = false, pmin_is_std = false;
#endif
namespace vec = Eigen::internal;
/// Vector registers of the target.
inline constexpr index_t packet_registers = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS;
}  // namespace detail

/// `width` numbers of type S (float or double) in one register.
template <std::floating_point S>
struct Packet {
  using Register = typename detail::vec::packet_traits<S>::type;
  static constexpr index_t width = detail::vec::unpacket_traits<Register>::size;
  using Lanes = std::array<S, static_cast<std::size_t>(width)>;

  Register r;

  Packet() = default;
  Packet(S value) : r(detail::vec::pset1<Register>(value)) {}
  explicit Packet(Register reg) requires(!std::same_as<Register, S>) : r(reg) {}
  explicit Packet(const Lanes& lanes) : r(detail::vec::ploadu<Register>(lanes.data())) {}

  /// `width` elements, of any alignment.
  static Packet load(const S* p) { return wrap(detail::vec::ploadu<Register>(p)); }
  static Packet load(const bfloat16* p) requires std::same_as<S, float> {
    using Halves = typename detail::vec::packet_traits<Eigen::bfloat16>::type;
    // Not every architecture that has packets of bfloat16 turns them into float.
    constexpr bool turns = detail::vec::type_casting_traits<Eigen::bfloat16, float>::VectorizedCast;
    if constexpr (turns && width > 1 && detail::vec::unpacket_traits<Halves>::size == width) {
      const auto* halves = reinterpret_cast<const Eigen::bfloat16*>(p);
      return wrap(detail::vec::pcast<Halves, Register>(detail::vec::ploadu<Halves>(halves)));
    } else {
      std::array<std::uint32_t, static_cast<std::size_t>(width)> bits;
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = std::uint32_t{p[i].bits} << 16U;
      return Packet(std::bit_cast<Lanes>(bits));
    }
  }

  /// The first n <= width elements, 0 in the other lanes; nothing past them is read.
  template <class T>
  static Packet load_first(const T* p, index_t n) {
    if constexpr (masks<T>) return wrap(detail::vec::ploadu<Register>(p, mask(n)));
    std::array<T, static_cast<std::size_t>(width)> lanes{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) lanes[i] = p[i];
    return load(lanes.data());
  }

  void store(S* p) const { detail::vec::pstoreu(p, r); }
  void store(bfloat16* p) const requires std::same_as<S, float> {
    const auto bits = std::bit_cast<std::array<std::uint32_t, static_cast<std::size_t>(width)>>(rounded().lanes());
    for (std::size_t i = 0; i < bits.size(); ++i) p[i].bits = static_cast<std::uint16_t>(bits[i] >> 16U);
  }

  /// Each lane as bfloat16(lane) has it.
  Packet rounded() const requires std::same_as<S, float> {
    namespace vec = detail::vec;
    using Bits = typename vec::unpacket_traits<Register>::integer_packet;
    const auto bits = [](std::uint32_t value) { return vec::pset1<Bits>(static_cast<std::int32_t>(value)); };
    const Bits u = vec::preinterpret<Bits>(r);
    const Bits odd = vec::pand(vec::plogical_shift_right<16>(u), bits(1));
    const Register number = vec::preinterpret<Register>(vec::padd(u, vec::padd(odd, bits(0x7fff))));
    const Register quiet = vec::preinterpret<Register>(vec::por(u, bits(0x400000)));
    const Register upper = vec::preinterpret<Register>(bits(0xffff0000));
    return wrap(vec::pand(vec::pselect(vec::pcmp_eq(r, r), number, quiet), upper));
  }

  /// Writes the first n <= width elements and nothing past them.
  template <class T>
  void store_first(T* p, index_t n) const {
    if constexpr (masks<T>) return detail::vec::pstoreu(p, r, mask(n));
    std::array<T, static_cast<std::size_t>(width)> lanes;
    store(lanes.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) p[i] = lanes[i];
  }

  Lanes lanes() const {
    Lanes x;
    store(x.data());
    return x;
  }

  static Packet wrap(Register reg) {
    Packet p;
    p.r = reg;
    return p;
  }

  /// Whether the register is moved in part by one instruction.
  template <class T>
  static constexpr bool masks = std::same_as<T, S>&& detail::vec::unpacket_traits<Register>::masked_load_available;
  static constexpr auto mask(index_t n) {
    return static_cast<typename detail::vec::unpacket_traits<Register>::mask_t>((1U << n) - 1);
  }

  friend Packet operator+(Packet a, Packet b) { return wrap(detail::vec::padd(a.r, b.r)); }
  friend Packet operator-(Packet a, Packet b) { return wrap(detail::vec::psub(a.r, b.r)); }
  friend Packet operator*(Packet a, Packet b) { return wrap(detail::vec::pmul(a.r, b.r)); }
  friend Packet operator/(Packet a, Packet b) { return wrap(detail::vec::pdiv(a.r, b.r)); }
  /// Turns the sign of 0 too, which Eigen's pnegate does not.
  friend Packet operator-(Packet a) { return wrap(detail::vec::pxor(a.r, Packet(S{-0.0}).r)); }
};

/// The lanes where a comparison holds.
template <std::floating_point S>
struct Mask {
  typename Packet<S>::Register r;
};

namespace detail {
/// f on each lane by itself.
template <class S, class F>
Packet<S> lanewise(Packet<S> x, F f) {
  auto lanes = x.lanes();
  for (S& lane : lanes) lane = f(lane);
  return Packet<S>(lanes);
}
}  // namespace detail

/// a * b + c, rounded once.
template <std::floating_point S>
Packet<S> fma(Packet<S> a, Packet<S> b, Packet<S> c) {
  if constexpr (detail::packet_fma) {
    return Packet<S>::wrap(detail::vec::pmadd(a.r, b.r, c.r));
  } else {
    auto x = a.lanes();
    const auto y = b.lanes(), z = c.lanes();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::fma(x[i], y[i], z[i]);
    return Packet<S>(x);
  }
}

/// Exact, unlike Eigen's psqrt; -fno-math-errno makes it one instruction.
template <std::floating_point S>
Packet<S> sqrt(Packet<S> x) {
  return detail::lanewise(x, [](S lane) { return std::sqrt(lane); });
}

/// Lane by lane, without the sign.
template <std::floating_point S>
Packet<S> abs(Packet<S> x) {
  return Packet<S>::wrap(detail::vec::pabs(x.r));
}

/// Lane by lane, whether a < b.
template <std::floating_point S>
Mask<S> less(Packet<S> a, Packet<S> b) {
  return {detail::vec::pcmp_lt(a.r, b.r)};
}

/// Lane by lane, whether a > b.
template <std::floating_point S>
Mask<S> greater(Packet<S> a, Packet<S> b) {
  return less(b, a);
}

/// Lane by lane, whether a = b.
template <std::floating_point S>
Mask<S> equal(Packet<S> a, Packet<S> b) {
  return {detail::vec::pcmp_eq(a.r, b.r)};
}

/// a where the mask holds, b elsewhere.
template <std::floating_point S>
Packet<S> select(Mask<S> mask, Packet<S> a, Packet<S> b) {
  return Packet<S>::wrap(detail::vec::pselect(mask.r, a.r, b.r));
}

/// Lane by lane, the smaller one.
template <std::floating_point S>
Packet<S> min(Packet<S> a, Packet<S> b) {
  if constexpr (detail::pmin_is_std) {
    return Packet<S>::wrap(detail::vec::pmin(a.r, b.r));
  } else {
    return select(less(b, a), b, a);
  }
}

/// Lane by lane, the larger one.
template <std::floating_point S>
Packet<S> max(Packet<S> a, Packet<S> b) {
  if constexpr (detail::pmin_is_std) {
    return Packet<S>::wrap(detail::vec::pmax(a.r, b.r));
  } else {
    return select(less(a, b), b, a);
  }
}

/// Lane by lane, rounded down.
template <std::floating_point S>
Packet<S> floor(Packet<S> x) {
  return Packet<S>::wrap(detail::vec::pfloor(x.r));
}

/// The nearest value that T can store, ties to even.
template <Element T, std::floating_point S>
  requires(std::same_as<T, S> || (std::same_as<T, bfloat16> && std::same_as<S, float>))
Packet<S> round_to(Packet<S> x) {
  if constexpr (std::same_as<T, S>) {
    return x;
  } else {
    return x.rounded();
  }
}

/// Asks for the cache line at p, which need not be readable.
template <std::floating_point S>
void prefetch(const S* p) {
  detail::vec::prefetch(p);
}

}  // namespace K3SPEC_NAMESPACE

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
