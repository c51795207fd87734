#pragma once
/// \file
/// Tokens drawn from weights, by the host.
/// defines: Distribution, pick

#include <limits>
#include <span>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>

namespace K3SPEC_NAMESPACE {

/// Non-negative weights of all tokens, not normalised.
template <class S>
struct Distribution {
  std::span<const S> weights;
  double total = 0;

  /// A distribution from weights that need not add up to 1.
  /// \throws Error unless the weights have a positive, finite sum
  explicit Distribution(std::span<const S> w) : weights(w) {
    for (const S x : w) total += static_cast<double>(x);
    if (!(total > 0 && total <= std::numeric_limits<double>::max())) {
      throw Error("token weights: sum", fmt::format("{}", total), "positive and finite");
    }
  }
  /// Of a token of the weights.
  double operator[](index_t token) const { return static_cast<double>(weights[static_cast<std::size_t>(token)]); }
  index_t size() const { return static_cast<index_t>(weights.size()); }
};

/// The token at which weight(0) + weight(1) + … passes u · total, 0 ≤ u < 1; `total` is that sum over all n in the same
/// order, so a token of weight 0 is never picked.
template <class Weight>
index_t pick(index_t n, double total, double u, Weight&& weight) {
  const double bound = u * total;
  double sum = 0;
  for (index_t j = 0; j < n; ++j) {
    sum += weight(j);
    if (sum > bound) return j;
  }
  return n - 1;
}

/// A token drawn from p with a uniform u in [0, 1).
template <class S>
index_t pick(const Distribution<S>& p, double u) {
  return pick(p.size(), p.total, u, [&](index_t j) { return p[j]; });
}

}  // namespace K3SPEC_NAMESPACE
