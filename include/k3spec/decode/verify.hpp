#pragma once
/// \file
/// Which drafted tokens stay, and what comes after them. With the target's distributions p and the draft's q, at a
/// temperature by one of two rules; either leaves every token distributed as the target's own.
///
/// Token by token (Leviathan et al., arXiv 2211.17192): a drafted token x stays with probability min(1, p(x) / q(x));
/// the first one that does not is replaced by a token drawn from max(p - q, 0), normalised, and all that follow it go.
/// When all stay, one more is drawn from the target's next distribution.
///
/// By block (Sun et al., arXiv 2403.10444): prefixes x_1 … x_i stay or go as a whole, the longest that stays is kept.
/// With p_i, q_i the distributions behind prefix i, each prefix has a reach
/// ```text
/// r_0 = 1,   r_i = min(1, r_{i-1} p_{i-1}(x_i) / q_{i-1}(x_i)),
/// ```
/// it stays with probability h_n = r_n for the whole block of n tokens, and else
/// ```text
/// h_i = R_i / (R_i + 1 - r_i),   R_i = Σ_x max(r_i p_i(x) - q_i(x), 0),
/// ```
/// and the token behind it is drawn from max(r_i p_i - q_i, 0), normalised. Why that is right: r_i is the probability
/// that prefix i or a longer one stays, given that it was drafted. For the whole block it is h_n; and before that, a
/// longer one stays with probability Σ_x q_i(x) r_{i+1}(x) = Σ_x min(q_i, r_i p_i)(x) = r_i - R_i, so that all together
/// it is r_i - R_i + (1 - r_i + R_i) h_i = r_i. Token x then follows prefix i with q_i(x) r_{i+1}(x), when it stays,
/// and R_i · max(r_i p_i(x) - q_i(x), 0) / R_i, when prefix i is the longest: r_i p_i(x) in all. Since r_i is at least
/// min(1, p_0(x_1) / q_0(x_1)) · …, the probability of the other rule, no block keeps fewer tokens in expectation.
/// A block may end anywhere, as long as that depends on nothing but the tokens before.
/// defines: Verification, Proposal, Verdict, verify_greedy, stays,
/// residual, residual_total, prefix_stays, pick_residual, verify_tokens, verify_block,
/// verify_sampled

#include <algorithm>
#include <array>
#include <string_view>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/sampling.hpp>

namespace K3SPEC_NAMESPACE {

/// The rule at a temperature.
enum class Verification { token, block };
template <>
inline constexpr std::array<std::string_view, 2> names_of<Verification>{"token", "block"};

/// What a draft proposes, as ids of the target; views of the session that made it, valid until its next call.
template <class S>
struct Proposal {
  std::span<const index_t> tokens;
  /// At a temperature: row i has the weights that token i was drawn with. [tokens, vocabulary]
  Matrix<const S> weights = {};

  index_t size() const { return static_cast<index_t>(tokens.size()); }
  /// The first n of them. \throws Error when there are fewer
  Proposal first(index_t n) const {
    require_part("proposal: tokens", 0, n, size());
    if (weights.extent(0) > 0) require_rows("proposal: weights", weights, size());
    return {tokens.first(static_cast<std::size_t>(n)), weights.extent(0) > 0 ? weights.rows(0, n) : weights};
  }
  /// What token i was drawn from.
  /// \throws Error where row i is not there
  Distribution<S> distribution(index_t i) const {
    require_index("proposal: weights: row", i, weights.extent(0));
    return Distribution<S>({weights.row(i), static_cast<std::size_t>(weights.extent(1))});
  }
};

/// What stays of a proposal, and the token behind it.
struct Verdict {
  index_t accepted;  ///< drafted tokens that stay
  index_t next;      ///< the token after them
};

/// For the likeliest tokens: those stay that are the target's own.
/// \param top  the target's likeliest token at each drafted token's place and at the one after the last
/// \throws Error unless it is one more than tokens
inline Verdict verify_greedy(std::span<const index_t> tokens, std::span<const index_t> top) {
  require_count("verify: top", static_cast<index_t>(top.size()), static_cast<index_t>(tokens.size()) + 1, " tokens");
  const auto kept = std::mismatch(tokens.begin(), tokens.end(), top.begin());
  return {kept.first - tokens.begin(), *kept.second};
}

namespace detail {
/// \throws Error unless both are of the same tokens
template <class S>
void require_same_tokens(const Distribution<S>& p, const Distribution<S>& q) {
  require_count("verify: weights of the draft", q.size(), p.size(), " tokens");
}

/// \throws Error unless there is a row of weights for each token, and each is one that they weigh
template <class S>
void require_proposal(const Proposal<S>& proposal) {
  require_rows("verify: weights of the draft", proposal.weights, proposal.size());
  require_ids("verify: tokens", Vector<const index_t>(proposal.tokens.data(), proposal.size()),
              proposal.weights.extent(1));
}
}  // namespace detail

/// Does token x, drawn from q, stay? u is uniform in [0, 1).
/// \throws Error where p and q are not of the same tokens, or x is none of them
template <class S>
bool stays(const Distribution<S>& p, const Distribution<S>& q, index_t x, double u) {
  detail::require_same_tokens(p, q);
  require_index("verify: token", x, p.size());
  return u * q[x] * p.total < p[x] * q.total;
}

/// max(reach · p − q, 0) of token j, times both totals.
template <class S>
double residual(const Distribution<S>& p, const Distribution<S>& q, double reach, index_t j) {
  return std::max(reach * p[j] * q.total - q[j] * p.total, 0.0);
}

/// The sum of that over all tokens, in the same order and scale.
/// \throws Error where p and q are not of the same tokens
template <class S>
double residual_total(const Distribution<S>& p, const Distribution<S>& q, double reach) {
  detail::require_same_tokens(p, q);
  double total = 0;
  for (index_t j = 0; j < p.size(); ++j) total += residual(p, q, reach, j);
  return total;
}

/// Does a prefix stay when no longer one does? p and q are the distributions behind it.
template <class S>
bool prefix_stays(const Distribution<S>& p, const Distribution<S>& q, double reach, double u) {
  const double rest = residual_total(p, q, reach) / (p.total * q.total);
  return u * (rest + 1 - reach) < rest;
}

/// A token from max(reach · p − q, 0). When nothing is left of it but rounding, p and q are the same, and so is p.
template <class S>
index_t pick_residual(const Distribution<S>& p, const Distribution<S>& q, double u, double reach = 1) {
  const double total = residual_total(p, q, reach);
  if (!(total > 0)) return pick(p, u);
  return pick(p.size(), total, u, [&](index_t j) { return residual(p, q, reach, j); });
}

/// Token by token, for drawn tokens.
/// \param target   target(i): the target's distribution at the place of drafted token i, or after the last one when i
///                 is their number; called in ascending order, as far as needed
/// \param uniform  uniform(decision, i) in [0, 1), for drafted token i or the one after the last
/// \throws Error on a proposal without a row of weights for each token, a token that they do not weigh, and where
///         target and draft weigh other tokens
template <class S, class Target, class Uniform>
Verdict verify_tokens(const Proposal<S>& proposal, Target&& target, Uniform&& uniform) {
  const index_t n = proposal.size();
  detail::require_proposal(proposal);
  for (index_t i = 0; i < n; ++i) {
    const Distribution<S> p = target(i), q = proposal.distribution(i);
    if (stays(p, q, proposal.tokens[static_cast<std::size_t>(i)], uniform(Decision::accept, i))) continue;
    return {i, pick_residual(p, q, uniform(Decision::token, i))};
  }
  return {n, pick(target(n), uniform(Decision::token, n))};
}

/// The same by block. target(0), target(1), … are called once each, all of them, and must stay as they are.
template <class S, class Target, class Uniform>
Verdict verify_block(const Proposal<S>& proposal, Target&& target, Uniform&& uniform) {
  const index_t n = proposal.size();
  detail::require_proposal(proposal);
  Distribution<S> p = target(0), kept = p;
  double reach = 1, kept_reach = 1;
  index_t accepted = 0;
  for (index_t i = 1; i <= n; ++i) {
    const Distribution<S> q = proposal.distribution(i - 1);
    detail::require_same_tokens(p, q);
    const index_t x = proposal.tokens[static_cast<std::size_t>(i - 1)];
    reach = std::min(1.0, reach * (p[x] * q.total) / (q[x] * p.total));
    p = target(i);
    const double u = uniform(Decision::accept, i - 1);
    if (i == n ? u < reach : prefix_stays(p, proposal.distribution(i), reach, u)) {
      accepted = i, kept = p, kept_reach = reach;
    }
  }
  const double u = uniform(Decision::token, accepted);
  if (accepted == n) return {n, pick(kept, u)};
  return {accepted, pick_residual(kept, proposal.distribution(accepted), u, kept_reach)};
}

/// Verifies by a rule, with the random numbers of the round that begins at a position.
/// \param target    as verify_tokens and verify_block want it
/// \param position  of the first drafted token
template <class S, class Target>
Verdict verify_sampled(Verification rule, const Proposal<S>& proposal, Target&& target, const Sampling& sampling,
                       index_t position) {
  const auto uniform = [&](Decision decision, index_t i) {
    return sampling.uniform(decision, position + i, decision == Decision::token ? 0 : position);
  };
  return rule == Verification::block ? verify_block(proposal, target, uniform)
                                     : verify_tokens(proposal, target, uniform);
}

}  // namespace K3SPEC_NAMESPACE
