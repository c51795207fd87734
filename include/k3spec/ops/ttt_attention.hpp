#pragma once
/// \file
/// Attention of one test-time-training step (EAGLE-3, arXiv 2503.01840). Query i of step k sees the step-0 keys that
/// `visible` allows plus, for each later step s <= k, the one key of step s at its own position; one softmax over both.
/// A query that sees nothing gives 0.
/// ```text
/// q   [sequences·queries, heads·(nope+rope)]     heads of [nope ‖ rope]
/// kv  [sequences·keys, heads·(nope+v)]           heads of [k_nope ‖ v]; later steps: [sequences·queries, …]
/// k_rope [sequences·keys, rope]                  shared by all heads
/// o   [sequences·queries, heads·v],  lse [sequences·queries, heads]  log of the softmax denominator (LogSumExp)
/// forward    s = scale · q·k, lse = log Σ exp(s), o = Σ exp(s - lse) v
/// backward   p = exp(s - lse), delta = Σ dO ⊙ O, dV += p dO, dS = p (dO·v - delta) scale, dQ += dS k, dK += dS q
/// ```
/// The score matrix exists one tile at a time. Queries that see the same first key, those of one document, are taken
/// together; tiles of keys begin at multiples of a tile's size from there, and keys are added in ascending order. So a
/// query's result does not depend on which queries or later keys stand beside it, as long as all values are finite, nor
/// on other documents, whatever their values: a packed document has the bits that it has alone, gradients too. A NaN
/// that a query sees comes out as one.
/// Saved: q, kv, k_rope, o, lse. A backend brings ttt_forward_kernel and ttt_backward_kernel with its tag.
/// defines: ttt_attention_forward, ttt_attention_backward, ttt_attention_scratch

#include <string>

#include <k3spec/backend/cpu/ttt_attention.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
template <class Heads, class T>
void require_steps(const char* argument, const AttentionSteps<T>& steps, const AttentionSpan& span) {
  if (steps.count == 0) throw Error(argument, "none", "at least those of step 0");
  for (index_t s = 0; s < steps.count; ++s) {
    const index_t rows = span.sequences * (s == 0 ? span.keys : span.queries);
    require_shape(argument, steps[s].kv, rows, Heads::count * Heads::kv);
    require_shape(argument, steps[s].k_rope, rows, Heads::rope);
  }
}

template <class Heads, class T, class Visible, class O>
void require_ttt(const TttProblem<Heads, T, Visible>& problem, const AttentionResult<O>& result) {
  const AttentionSpan& span = problem.span;
  require_shape("ttt_attention: q", problem.q, span.rows(), Heads::count * Heads::qk);
  require_steps<Heads>("ttt_attention: steps", problem.steps, span);
  require_shape("ttt_attention: o", result.o, span.rows(), Heads::count * Heads::v);
  require_shape("ttt_attention: lse", result.lse, span.rows(), Heads::count);
  if (span.first >= 0 && span.first + span.queries <= span.keys) return;
  throw Error("ttt_attention: span: queries", std::to_string(span.queries) + " from " + std::to_string(span.first),
              "at most " + std::to_string(span.keys) + " keys");
}
}  // namespace detail

/// The problem's steps[0] are the step-0 keys, steps[s] those of later step s.
/// \throws Error on shapes that do not fit the span
template <Device D, class Heads, class T, class Visible>
void ttt_attention_forward(const D& device, const TttProblem<Heads, T, Visible>& problem,
                           const AttentionResult<T>& result) {
  detail::require_ttt(problem, result);
  ttt_forward_kernel(device, problem, result);
}

/// Gradients of queries and of all steps' keys, each as it is asked for.
/// \throws Error as forward does, and unless every sequence has as many queries as keys and first is 0
template <Device D, class Heads, class T, class Visible>
void ttt_attention_backward(const D& device, const TttProblem<Heads, T, Visible>& problem,
                            const std::type_identity_t<AttentionResult<const T>>& result,
                            const Matrix<const accumulate_t<T>>& d_o, const TttGradients<accumulate_t<T>>& d,
                            arena_t<D>& scratch) {
  const AttentionSpan& span = problem.span;
  if (span.queries != span.keys || span.first != 0) {
    throw Error("ttt_attention: queries", std::to_string(span.queries) + " from " + std::to_string(span.first),
                std::to_string(span.keys) + " from 0, as many as keys");
  }
  detail::require_ttt(problem, result);
  require_shape("ttt_attention: d_o", d_o, span.rows(), Heads::count * Heads::v);
  if (d.into_q != Into::nothing) require_shape("ttt_attention: d_q", d.d_q, span.rows(), Heads::count * Heads::qk);
  if (d.into_steps != Into::nothing) {
    detail::require_steps<Heads>("ttt_attention: d_steps", d.d_steps, span);
    require_count("ttt_attention: d_steps", d.d_steps.count, problem.steps.count);
  }
  Scope scope(scratch);
  const auto s = TttScratch<Heads, accumulate_t<T>>::allocate(scratch, span.rows(), problem.steps.count);
  ttt_backward_kernel(device, problem, result, d_o, d, s);
}

/// Bytes of scratch that backward takes.
template <class Heads, class T>
constexpr std::size_t ttt_attention_scratch(index_t rows, index_t steps) {
  return plan_bytes([&](ArenaPlan& a) { TttScratch<Heads, accumulate_t<T>>::allocate(a, rows, steps); });
}

}  // namespace K3SPEC_NAMESPACE
