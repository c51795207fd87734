#pragma once
/// \file
/// The mathematics of one scalar lane, under the names that packets use too, so that one functor serves both.
/// defines: sqrt, floor, abs, fma, min, max, less, greater, equal, select, sum, maximum, round_to for float and double,
/// sigmoid for double

#include <cmath>
#include <concepts>

#include <k3spec/core/dtype.hpp>

namespace K3SPEC_NAMESPACE {

// clang-format off
/// The square root.
template <std::floating_point S> K3SPEC_HOST_DEVICE S sqrt(S x) { return std::sqrt(x); }
/// Rounded down.
template <std::floating_point S> K3SPEC_HOST_DEVICE S floor(S x) { return std::floor(x); }
/// Without the sign.
template <std::floating_point S> K3SPEC_HOST_DEVICE S abs(S x) { return std::fabs(x); }
/// a · b + c, rounded once.
template <std::floating_point S> K3SPEC_HOST_DEVICE S fma(S a, S b, S c) { return std::fma(a, b, c); }
/// The smaller one.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr S min(S a, S b) { return b < a ? b : a; }
/// The larger one.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr S max(S a, S b) { return a < b ? b : a; }
/// Whether a < b.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr bool less(S a, S b) { return a < b; }
/// Whether a > b.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr bool greater(S a, S b) { return b < a; }
/// Whether a = b.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr bool equal(S a, S b) { return a == b; }
/// a where the mask holds, else b.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr S select(bool mask, S a, S b) { return mask ? a : b; }
/// One lane is its own sum and its own maximum.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr S sum(S x) { return x; }
/// One lane is its own maximum.
template <std::floating_point S> K3SPEC_HOST_DEVICE constexpr S maximum(S x) { return x; }
/// 1 / (1 + e^-x) by the standard library, for numbers of the host. Expressions have one of their own.
template <std::same_as<double> S> S sigmoid(S x) { return 1 / (1 + std::exp(-x)); }
/// x as the nearest value that T can store, ties to even.
template <Element T, std::floating_point S>
K3SPEC_HOST_DEVICE constexpr S round_to(S x) { return static_cast<S>(static_cast<T>(x)); }
// clang-format on

}  // namespace K3SPEC_NAMESPACE
