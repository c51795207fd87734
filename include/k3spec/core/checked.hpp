#pragma once
/// \file
/// Sizes that come from outside are multiplied here, so that none wraps around into a small allocation.
/// defines: checked_product

#include <concepts>
#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// a · b · …, each at least 0.
/// \throws Error when a factor is negative or the product does not fit 62 bits
template <std::convertible_to<index_t>... Rest>
constexpr index_t checked_product(index_t a, Rest... rest) {
  constexpr index_t most = index_t{1} << 62;
  index_t product = a;
  bool fits = a >= 0 && a <= most;
  [[maybe_unused]] const auto times = [&](index_t b) {
    fits = fits && b >= 0 && (b == 0 || product <= most / b);  // no builtin: nvcc has none for constants
    if (fits) product *= b;
  };
  (times(static_cast<index_t>(rest)), ...);
  if (fits) return product;
  std::string found = std::to_string(a);
  ((found += " x " + std::to_string(static_cast<index_t>(rest))), ...);
  throw Error("size", found, "factors of at least 0 and a product of at most 2^62");
}

}  // namespace K3SPEC_NAMESPACE
