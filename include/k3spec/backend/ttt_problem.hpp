#pragma once
/// \file
/// What every backend is handed of attention over the steps of test-time training (ops/ttt_attention.hpp).
/// defines: AttentionSpan, max_attention_steps, AttentionSteps, TttProblem, TttGradients, TttScratch

#include <array>
#include <string>
#include <type_traits>

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/backend/visibility.hpp>
#include <k3spec/core/arena.hpp>

namespace K3SPEC_NAMESPACE {

/// How many sequences, queries and keys; query 0 stands at position `first` among the keys.
struct AttentionSpan {
  index_t sequences, queries, keys, first = 0;

  /// Query rows of all sequences.
  K3SPEC_HOST_DEVICE constexpr index_t rows() const { return sequences * queries; }
};

/// The longest unroll whose keys a problem holds.
inline constexpr index_t max_attention_steps = 16;

/// The keys and values of some steps, those of step 0 first.
template <class T>
struct AttentionSteps {
  static constexpr index_t most = max_attention_steps;
  std::array<AttentionKeys<T>, static_cast<std::size_t>(most)> keys{};
  index_t count = 0;

  /// Those of one step more.
  /// \throws Error when there are `most` already
  void add(const AttentionKeys<T>& step) {
    if (count == most) throw Error("attention: steps", "more", "at most " + std::to_string(most));
    keys[static_cast<std::size_t>(count++)] = step;
  }
  K3SPEC_HOST_DEVICE constexpr const AttentionKeys<T>& operator[](index_t step) const {
    return keys[static_cast<std::size_t>(step)];
  }
};

/// Queries, keys, and which of them see each other.
template <class Heads, class T, class Visible>
struct TttProblem {
  static_assert(std::is_trivially_copyable_v<Visible>);
  AttentionSpan span;
  Matrix<const T> q;              ///< [sequences·queries, heads·(nope+rope)]
  AttentionSteps<const T> steps;  ///< step 0 has [sequences·keys] rows, later ones [sequences·queries]
  Visible visible;                ///< of step 0
  scalar_t<T> scale;              ///< of scores
};
static_assert(std::is_trivially_copyable_v<TttProblem<AttentionHeads<1, 1, 1, 1>, bfloat16, CausalVisibility>>);

/// Where the gradients of a TttProblem's inputs go.
template <class S>
struct TttGradients {
  Matrix<S> d_q;
  AttentionSteps<S> d_steps;  ///< as many as the problem has
  Into into_q = Into::overwrite, into_steps = Into::overwrite;
};
static_assert(std::is_trivially_copyable_v<TttGradients<float>>);

/// Scratch of backward: the score gradients of the diagonal and, per head, those of the shared rope slice; and what a
/// device whose queries and keys are not walked together keeps of a query.
template <class Heads, class S>
struct TttScratch {
  Rows<S, Heads::count * Heads::rope> d_k_rope;
  Rows<S, Heads::count> d_diagonal;  ///< [later steps · rows, heads]
  Rows<S, Heads::count> delta;       ///< d_o · o

  template <Allocator A>
  static constexpr TttScratch allocate(A& a, index_t rows, index_t steps) {
    TttScratch s;
    take_rows(a, rows, s.d_k_rope), take_rows(a, (steps - 1) * rows, s.d_diagonal);
    if constexpr (is_placed<S>) take_rows(a, rows, s.delta);
    return s;
  }
};

}  // namespace K3SPEC_NAMESPACE
