#pragma once
/// \file
/// Which drafted tokens stay, and what comes after them.
///
/// At a temperature by rejection (Leviathan et al., arXiv 2211.17192): with the target's distribution p and the draft's
/// q, a drafted token x stays with probability min(1, p(x) / q(x)); the first one that does not is replaced by a token
/// drawn from max(p − q, 0), normalised, and all that follow it go. When all stay, one more is drawn from the target's
/// next distribution. Every token is then distributed as the target's own.
/// defines: Proposal, Verdict, verify_greedy, stays, pick_residual, verify_sampled

#include <algorithm>

#include <k3spec/decode/sampling.hpp>

namespace k3spec {

/// What a draft proposes, as ids of the target; views of the session that made it, valid until its next call.
template <class S>
struct Proposal {
  std::span<const index_t> tokens;
  /// At a temperature: row i has the weights that token i was drawn with. [tokens, vocabulary]
  Matrix<const S> weights = {};

  index_t size() const { return static_cast<index_t>(tokens.size()); }
  Distribution<S> distribution(index_t i) const {
    return Distribution<S>({weights.row(i), static_cast<std::size_t>(weights.extent(1))});
  }
};

struct Verdict {
  index_t accepted;  ///< drafted tokens that stay
  index_t next;      ///< the token after them
};

/// \param top  the target's likeliest token at each drafted token's place and at the one after the last
inline Verdict verify_greedy(std::span<const index_t> tokens, std::span<const index_t> top) {
  const auto kept = std::mismatch(tokens.begin(), tokens.end(), top.begin());
  return {kept.first - tokens.begin(), *kept.second};
}

/// Does token x, drawn from q, stay? u is uniform in [0, 1).
template <class S>
bool stays(const Distribution<S>& p, const Distribution<S>& q, index_t x, double u) {
  return u * q[x] * p.total < p[x] * q.total;
}

/// A token from max(p − q, 0). When nothing is left of it but rounding, p and q are the same, and so is p.
template <class S>
index_t pick_residual(const Distribution<S>& p, const Distribution<S>& q, double u) {
  const auto weight = [&](index_t j) { return std::max(p[j] * q.total - q[j] * p.total, 0.0); };
  double total = 0;
  for (index_t j = 0; j < p.size(); ++j) total += weight(j);
  return total > 0 ? pick(p.size(), total, u, weight) : pick(p, u);
}

/// \param target    target(i): the target's distribution at the place of drafted token i, or after the last one when i
///                  is their number; called in ascending order, as far as needed
/// \param position  of the first drafted token
template <class S, class Target>
Verdict verify_sampled(const Proposal<S>& proposal, Target&& target, const Sampling& sampling, index_t position) {
  const index_t n = proposal.size();
  for (index_t i = 0; i < n; ++i) {
    const Distribution<S> p = target(i), q = proposal.distribution(i);
    const index_t x = proposal.tokens[static_cast<std::size_t>(i)];
    if (stays(p, q, x, sampling.uniform(Decision::accept, position + i))) continue;
    return {i, pick_residual(p, q, sampling.uniform(Decision::token, position + i))};
  }
  return {n, pick(target(n), sampling.uniform(Decision::token, position + n))};
}

}  // namespace k3spec
