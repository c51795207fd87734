#pragma once
/// \file
/// Rotary positions (arXiv 2104.09864), interleaved: columns (2i, 2i+1) of the rope slice turn by position · frequency
/// i.
/// ```text
/// frequency i   ops/rope_frequencies.hpp
/// forward       (a, b) -> (a cos - b sin, a sin + b cos), in place
/// backward      the same with -sin: a rotation's transpose, in place on gradients
/// ```
/// Frequencies and angles are float32 whatever is stored, as models are trained with them; cos and sin are those of
/// accumulate_t. A position's angle is float32(position) · frequency, rounded to float32.
/// Saved: nothing but the positions. A backend brings rope_kernel with its tag.
/// defines: rope_forward, rope_backward

#include <k3spec/backend/cpu/rope.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
template <class Heads, class T>
void require_rope(const char* q, const char* k_rope, const RopeProblem<Heads, T>& problem) {
  require_shape(q, problem.q, problem.q.extent(0), Heads::count * Heads::qk);
  require_shape(k_rope, problem.k_rope, problem.q.extent(0), Heads::rope);
}
}  // namespace detail

/// Turns the rope slices of queries and of the keys of the same rows to their positions.
/// \throws Error on other shapes than the heads say
template <Device D, class Heads, class T>
void rope_forward(const D& device, const RopeProblem<Heads, T>& problem) {
  detail::require_rope("rope: q", "rope: k_rope", problem);
  rope_kernel(device, problem, Rotation::forward);
}

/// The problem's q and k_rope are the gradients of what was rotated -> those of what it was rotated from.
/// \throws Error on other shapes than the heads say
template <Device D, class Heads, class T>
void rope_backward(const D& device, const RopeProblem<Heads, T>& problem) {
  detail::require_rope("rope: d_q", "rope: d_k_rope", problem);
  rope_kernel(device, problem, Rotation::back);
}

}  // namespace K3SPEC_NAMESPACE
