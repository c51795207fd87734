#pragma once
/// \file
/// Kimi delta attention's recurrence (Kimi Linear, arXiv 2510.26692), one head, state S [D, D]:
/// ```text
/// S ← diag(e^g_t) S;   u_t = β_t (v_t - Sᵀ k_t);   S ← S + k_t u_tᵀ;   o_t = Sᵀ q_t
/// ```
/// q, k, g, v, o [tokens, D], β [tokens]. Given k, e^g and u, S can be carried on without q, v and β: that is what
/// a log keeps, so that a state can be brought to any of the last tokens with the very bits it had there.
/// defines: kda_unit_formula, kda_log_decay_formula, kda_recurrence

#include <k3spec/backend/cpu/kda.hpp>
#include <k3spec/backend/kda_problem.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE {

/// x · ((Σx² + 1e-6)^-1/2 · scale) over a row: L2-normalised queries and keys.
constexpr auto kda_unit_formula(double scale) {
  constexpr auto x = expr::arg<0>;
  return x * (rsqrt(row_sum(x * x) + 1e-6) * scale);
}

/// Log-decay g = bound · σ(rate · (x + dt_bias)); operand 0 is x, 1 is rate = exp(A_log) of the channel's head, 2 is
/// dt_bias.
constexpr auto kda_log_decay_formula(double bound) {
  return bound * sigmoid(expr::column<1> * (expr::arg<0> + expr::column<2>));
}

/// The same without a bound: g = -rate · softplus(x + dt_bias).
constexpr auto kda_log_decay_formula() { return -(expr::column<1> * softplus(expr::arg<0> + expr::column<2>)); }

namespace detail {
/// \throws Error on rows that are not there, and on more pending or logged tokens than a log holds
template <Element T>
void require_sequences(const KdaSequence<T>* sequences, index_t count, index_t rows) {
  for (const KdaSequence<T>* s = sequences; s != sequences + count; ++s) {
    require_part("KDA: rows of a sequence", s->row, s->tokens, rows);
    require_part("KDA: pending tokens", 0, s->pending, s->memory.rollback);
    if (s->logged) require_part("KDA: logged tokens", 0, s->tokens, s->memory.rollback);
  }
}
}  // namespace detail

/// Runs each sequence's heads over its new tokens, see above: q, k, v, decay, beta -> o and the sequences' memory.
/// \throws Error on shapes that do not fit q's or rows of other distances, and on sequences whose tokens q or their
///         logs have not
template <Device D, Element T, index_t Dim>
void kda_recurrence(const D& device, const KdaRecurrence<T, Dim>& problem) {
  const auto check = [&](const char* name, const auto& x) {
    require_shape(name, x, problem.rows(), problem.heads() * Dim);
    require_count(name, x.row_stride(), problem.q.row_stride(), " from row to row");
  };
  check("kda_recurrence: q", problem.q), check("kda_recurrence: k", problem.k), check("kda_recurrence: v", problem.v);
  check("kda_recurrence: decay", problem.decay), check("kda_recurrence: o", problem.o);
  require_shape("kda_recurrence: beta", problem.beta, problem.rows(), problem.heads());
  detail::require_sequences(problem.sequences, problem.count, problem.rows());
  kda_recurrence_kernel(device, problem);
}

}  // namespace K3SPEC_NAMESPACE
