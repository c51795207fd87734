#pragma once
/// \file
/// Functions of packets in vector registers that are made of others: of float they are within 2 ulp, of double the
/// standard library's.
/// defines: times_power_of_two, exponent, mantissa, exp, log, tanh

#include <cmath>
#include <concepts>

#include <k3spec/backend/cpu/packet_eigen.hpp>
#include <k3spec/core/float_math.hpp>

// An intrinsic type as a template argument loses attributes that play no part here.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace K3SPEC_NAMESPACE {

/// Lane by lane, see float_math::times_power_of_two.
inline Packet<float> times_power_of_two(Packet<float> x, Packet<float> n) {
#if defined(__AVX512F__)
  return Packet<float>::wrap(_mm512_scalef_ps(x.r, n.r));
#else
  namespace vec = detail::vec;
  using Register = Packet<float>::Register;
  using Whole = typename vec::unpacket_traits<Register>::integer_packet;
  const Whole whole = vec::pcast<Register, Whole>(n.r), half = vec::parithmetic_shift_right<1>(whole);
  const auto power = [](const Whole& e) {
    return Packet<float>::wrap(
        vec::preinterpret<Register>(vec::plogical_shift_left<23>(vec::padd(e, vec::pset1<Whole>(127)))));
  };
  return x * power(half) * power(vec::psub(whole, half));
#endif
}
/// Lane by lane, see float_math::exponent.
inline Packet<float> exponent(Packet<float> x) {
  return detail::lanewise(x, [](float lane) { return float_math::exponent(lane); });
}
/// Lane by lane, see float_math::mantissa.
inline Packet<float> mantissa(Packet<float> x) {
  return detail::lanewise(x, [](float lane) { return float_math::mantissa(lane); });
}

/// Those of float are core/float_math.hpp's, those of double the standard library's, lane by lane.
template <std::floating_point S>
Packet<S> exp(Packet<S> x) {
  if constexpr (std::same_as<S, float>) {
    return float_math::exp(x);
  } else {
    return detail::lanewise(x, [](S lane) { return std::exp(lane); });
  }
}

/// The natural logarithm, see exp.
template <std::floating_point S>
Packet<S> log(Packet<S> x) {
  if constexpr (std::same_as<S, float>) {
    return float_math::log(x);
  } else {
    return detail::lanewise(x, [](S lane) { return std::log(lane); });
  }
}

/// The hyperbolic tangent, see exp.
template <std::floating_point S>
Packet<S> tanh(Packet<S> x) {
  if constexpr (std::same_as<S, float>) {
    return float_math::tanh(x);
  } else {
    return detail::lanewise(x, [](S lane) { return std::tanh(lane); });
  }
}

}  // namespace K3SPEC_NAMESPACE

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
