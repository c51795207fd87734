#pragma once
/// \file
/// Tokens drawn at a temperature. A random number belongs to a position of the text and to what is decided with it, so
/// no result depends on threads, on how a text is cut into calls, or on the time. What a draft proposes and whether
/// that stays may be decided again at a position, in the next round: those numbers belong to their round, too, or else
/// what the first one rejected would weigh on the second.
/// defines: Decision, Sampling, Distribution, pick

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/decode/truncation.hpp>
#include <k3spec/expr/reduce.hpp>
#include <k3spec/ops/argmax.hpp>

namespace K3SPEC_NAMESPACE {

/// What a random number decides at its position.
enum class Decision : std::uint64_t {
  accept,  ///< whether a drafted token stays
  token,   ///< the target's own token, or the one in place of a rejected one
  draft,   ///< the drafted token
};

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

/// How tokens are chosen: the likeliest one at temperature 0, else at random with probability ∝ exp(logit /
/// temperature) from those that the truncation keeps.
struct Sampling {
  double temperature = 0;
  std::uint64_t seed = 0;
  Truncation truncation = {};

  bool is_greedy() const { return temperature == 0; }

  /// In [0, 1)
  /// \param round  the first position of the round that decides; 0 where there is no other at the position
  double uniform(Decision decision, index_t position, index_t round = 0) const {
    const auto stream = static_cast<std::uint64_t>(decision) + 4 * static_cast<std::uint64_t>(round);
    return Philox(seed, stream).uniform(static_cast<std::uint64_t>(position));
  }

  /// Logits [rows, tokens] -> weights, in place; the likeliest token of a row weighs 1.
  template <class S>
  void weigh(const Cpu& cpu, const Matrix<S>& logits) const {
    evaluate(cpu, exp((expr::arg<0> - row_max(expr::arg<0>)) * (1 / temperature)), logits, logits);
    for (index_t r = 0; r < logits.extent(0); ++r) {
      truncation.apply(std::span<S>(logits.row(r), static_cast<std::size_t>(logits.extent(1))));
    }
  }

  /// The token at `position` from its logits [1, tokens], which become weights unless the choice is greedy; none when
  /// they have a NaN or no finite largest value.
  /// \throws Error on other than one row of at least one token
  template <class S>
  std::optional<index_t> choose(const Cpu& cpu, const Matrix<S>& logits, Decision decision, index_t position,
                                index_t round = 0) const {
    require_rows("sampling: logits", logits, 1);
    if (logits.extent(1) < 1) throw Error("sampling: logits: tokens", "0", "at least 1");
    const index_t likeliest = argmax_row(logits.data(), logits.extent(1));
    if (!std::isfinite(logits(0, likeliest))) return std::nullopt;
    if (is_greedy()) return likeliest;
    weigh(cpu, logits);
    return pick(Distribution<S>({logits.data(), static_cast<std::size_t>(logits.extent(1))}),
                uniform(decision, position, round));
  }
};

}  // namespace K3SPEC_NAMESPACE
