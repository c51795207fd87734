#pragma once
/// \file
/// The rules of verification for weights that the host reads, and what a CPU makes of a problem with them. p are the
/// target's distributions, q the draft's.
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
/// defines: stays, residual, residual_total, prefix_stays, pick_residual, verify_tokens, verify_block, verify_sampled,
/// verify_kernel

#include <algorithm>
#include <span>

#include <k3spec/backend/cpu/sampling.hpp>
#include <k3spec/backend/verify_problem.hpp>

namespace K3SPEC_NAMESPACE {

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

namespace detail {
/// A drafted text's verdict.
template <class S>
Verdict verify_text(const Cpu& device, const VerifyProblem<S>& problem, const DraftedText<S>& text) {
  const Proposal<S> proposal{{problem.tokens.data() + text.first, static_cast<std::size_t>(text.count)}, text.weights};
  const auto target = [&](index_t i) {
    const Matrix<S> row = text.logits.rows(i, 1);
    weigh_row(device, text.sampling, row);
    return Distribution<S>({row.data(), static_cast<std::size_t>(row.extent(1))});
  };
  try {
    return verify_sampled(problem.rule, proposal, target, text.sampling, text.position);
  } catch (const Error&) {
    return {-1, 0};
  }
}
}  // namespace detail

/// See decode/verify.hpp, which has compared the shapes.
template <class S>
void verify_kernel(const Cpu& device, const VerifyProblem<S>& problem) {
  const index_t n = problem.texts.extent(0), vocabulary = n > 0 ? problem.texts(0).logits.extent(1) : 0;
  index_t rows = 0;
  for (index_t b = 0; b < n; ++b) rows += problem.texts(b).count + 1;
  parallel_for(cpu::for_work(device, rows * vocabulary * 8), n,
               [&](index_t b) { problem.verdicts(b) = detail::verify_text(Cpu{1}, problem, problem.texts(b)); });
}

}  // namespace K3SPEC_NAMESPACE
