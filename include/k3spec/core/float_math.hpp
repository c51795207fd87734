#pragma once
/// \file
/// exp, log and tanh of float by exactly rounded steps, for one lane or a packet of them: the same bits on every
/// device, in every lane and for every vector width, and within 2 ulp. P brings fma, min, max, floor, abs, less, equal,
/// select, and the three functions on a float's exponent below.
/// defines: float_math::exp, log, tanh, and for one lane times_power_of_two, exponent, mantissa; exp, log, tanh

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include <k3spec/core/scalar_math.hpp>

/// \namespace k3spec::float_math
/// Functions of float, of the same bits for one number and for a packet of them.

namespace K3SPEC_NAMESPACE::float_math {

/// x · 2^n, rounded once; n is a whole number from -252 to 254 and |x| in [1/2, 2], or x is NaN.
K3SPEC_HOST_DEVICE constexpr float times_power_of_two(float x, float n) {
  const auto whole = static_cast<std::int32_t>(n == n ? n : 0.0f), half = whole >> 1;
  const auto power = [](std::int32_t e) { return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23U); };
  return x * power(half) * power(whole - half);
}

/// e of x = m · 2^e, m in [1/2, 1), for a positive normal x.
K3SPEC_HOST_DEVICE constexpr float exponent(float x) {
  return static_cast<float>(static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) >> 23U) - 126);
}

/// m of the same.
K3SPEC_HOST_DEVICE constexpr float mantissa(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) & 0x7fffffU) | 0x3f000000U);
}

/// e^x. Gradual underflow, overflow to infinity.
template <class P>
K3SPEC_HOST_DEVICE P exp(P x) {
  // x = m ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first short enough that m times it is exact.
  x = min(max(x, P(-105.0f)), P(90.0f));
  const P m = floor(fma(x, P(1.44269504f), P(0.5f)));
  const P r = fma(m, P(-1.42860682e-6f), fma(m, P(-0.693145752f), x));
  // Taylor's series of (e^r - 1 - r) / r^2 to r^5: what it leaves out is under 2^-25 of e^r.
  P p = fma(r, P(1.0f / 5040), P(1.0f / 720));
  p = fma(p, r, P(1.0f / 120));
  p = fma(p, r, P(1.0f / 24));
  p = fma(p, r, P(1.0f / 6));
  p = fma(p, r, P(0.5f));
  p = fma(p, r * r, r) + P(1.0f);
  return times_power_of_two(p, m);
}

/// Natural logarithm: -infinity at 0, NaN below.
template <class P>
K3SPEC_HOST_DEVICE P log(P x) {
  // Subnormal numbers are scaled by 2^24 first. Then x = 2^e (1 + f), 1 + f in [√½, √2).
  const auto tiny = less(x, P(std::numeric_limits<float>::min()));
  const P scaled = select(tiny, x * P(16777216.0f), x);
  const P half = mantissa(scaled);
  const auto low = less(half, P(0.707106769f));
  const P e = exponent(scaled) - select(tiny, P(24.0f), P(0.0f)) - select(low, P(1.0f), P(0.0f));
  const P f = select(low, half + half, half) - P(1.0f), f2 = f * f;
  // log(1 + f) = f - f²/2 + f³ q(f), q through its values at the Chebyshev nodes of f's range.
  P q = fma(f, P(0.06971612f), P(-0.11479734f));
  q = fma(q, f, P(0.1168542f));
  q = fma(q, f, P(-0.12425687f));
  q = fma(q, f, P(0.14249058f));
  q = fma(q, f, P(-0.16667803f));
  q = fma(q, f, P(0.20000716f));
  q = fma(q, f, P(-0.24999997f));
  q = fma(q, f, P(0.3333333f));
  const P small = fma(q * f, f2, P(-0.5f) * f2);
  const P sum = fma(e, P(0.693359375f), f) + fma(e, P(-2.12194440e-4f), small);
  const float infinity = std::numeric_limits<float>::infinity();
  const P finite = select(equal(x, P(infinity)), x, select(equal(x, P(0.0f)), P(-infinity), sum));
  const auto below = less(x, P(0.0f));
  return select(equal(x, x), select(below, P(std::numeric_limits<float>::quiet_NaN()), finite), x);
}

/// tanh(x)
template <class P>
K3SPEC_HOST_DEVICE P tanh(P x) {
  // Below 0.625: x (1 + z q(z)), z = x^2, q through (tanh(x) / x - 1) / z at the Chebyshev nodes of [0, 0.625^2].
  const P z = x * x;
  P q = fma(z, P(-0.00609671418f), P(0.0209971797f));
  q = fma(q, z, P(-0.0538509078f));
  q = fma(q, z, P(0.133327693f));
  q = fma(q, z, P(-0.333333284f));
  const P near = x * fma(q, z, P(1.0f));
  const P a = abs(x);
  const P far = P(1.0f) - P(2.0f) / (float_math::exp(a + a) + P(1.0f));
  return select(less(a, P(0.625f)), near, select(less(x, P(0.0f)), -far, far));
}

}  // namespace K3SPEC_NAMESPACE::float_math

namespace K3SPEC_NAMESPACE {

/// Of one lane: float's as above, double's the standard library's.
// clang-format off
template <std::floating_point S> K3SPEC_HOST_DEVICE S exp(S x) {
  if constexpr (std::same_as<S, float>) { return float_math::exp(x); } else { return std::exp(x); }
}
/// The natural logarithm of one lane, see exp.
template <std::floating_point S> K3SPEC_HOST_DEVICE S log(S x) {
  if constexpr (std::same_as<S, float>) { return float_math::log(x); } else { return std::log(x); }
}
/// The hyperbolic tangent of one lane, see exp.
template <std::floating_point S> K3SPEC_HOST_DEVICE S tanh(S x) {
  if constexpr (std::same_as<S, float>) { return float_math::tanh(x); } else { return std::tanh(x); }
}
// clang-format on

}  // namespace K3SPEC_NAMESPACE
