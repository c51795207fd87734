#pragma once
/// \file
/// What an EAGLE-3 draft keeps of a forward pass, and the gradients that live across the steps of its backward pass.
/// Shapes: R = sequences · length rows, H hidden, A = num_aux_hidden_states · target_hidden_size.
/// defines: Eagle3Step, Eagle3Activations, Eagle3Scratch

#include <array>
#include <string>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/ttt_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// One TTT step's activations; kept for backward and, keys and values, for the later steps.
template <class Draft, class T>
struct Eagle3Step {
  using Attention = typename Draft::Attention;
  using MLP = typename Draft::MLP;
  static constexpr index_t hidden = Draft::hidden;

  Vector<placed_as_t<index_t, T>> ids;  // [R]
  Rows<T, hidden> embeds;               // embed(ids)
  Rows<T, 2 * hidden> fused;            // [RMS(embeds) ‖ RMS(hidden in)]
  typename Attention::template Saved<T> attention;
  Rows<log_sum_exp_t<T>, Attention::heads> lse;
  Rows<T, hidden> middle;  // hidden in + attention
  Rows<T, hidden> normed;  // RMS(middle)
  typename MLP::template Saved<T> mlp;
  Rows<T, hidden> state;  // middle + MLP
  Rows<T, hidden> out;    // state, or RMS(state) with norm_output

  template <Allocator A>
  static constexpr Eagle3Step allocate(A& a, index_t rows) {
    Eagle3Step s;
    take_rows(a, rows, s.ids), take_rows(a, rows, s.embeds), take_rows(a, rows, s.fused);
    s.attention = Attention::template Saved<T>::allocate(a, rows);
    take_rows(a, rows, s.lse), take_rows(a, rows, s.middle), take_rows(a, rows, s.normed);
    s.mlp = MLP::template Saved<T>::allocate(a, rows);
    take_rows(a, rows, s.state);
    s.out = s.state;
    if constexpr (Draft::config::norm_output) take_rows(a, rows, s.out);
    return s;
  }

  /// Rows [begin, begin + n) of everything.
  Eagle3Step rows(index_t begin, index_t n) const {
    return {ids.rows(begin, n),   embeds.rows(begin, n), fused.rows(begin, n),  attention.rows(begin, n),
            lse.rows(begin, n),   middle.rows(begin, n), normed.rows(begin, n), mlp.rows(begin, n),
            state.rows(begin, n), out.rows(begin, n)};
  }

  AttentionKeys<const T> keys() const { return {attention.kv.matrix(), attention.k_rope().matrix()}; }
  AttentionResult<T> attended() const { return {attention.o.matrix(), lse.matrix()}; }
};

/// All activations of an unroll.
template <class Draft, class T>
struct Eagle3Activations {
  using Step = Eagle3Step<Draft, T>;
  static constexpr index_t hidden = Draft::hidden, max_steps = Draft::max_steps;

  Rows<T, Draft::aux_width> aux_normed;  // only with fc_norm
  Rows<T, hidden> fc;
  std::array<Step, static_cast<std::size_t>(max_steps)> steps;
  index_t count;

  template <Allocator A>
  static constexpr Eagle3Activations allocate(A& a, index_t rows, index_t steps) {
    if (steps < 1 || steps > max_steps) {
      throw Error("ttt_steps", std::to_string(steps), "1 to " + std::to_string(max_steps));
    }
    Eagle3Activations all{};
    all.count = steps;
    if constexpr (Draft::config::fc_norm) take_rows(a, rows, all.aux_normed);
    take_rows(a, rows, all.fc);
    for (index_t k = 0; k < steps; ++k) all.steps[static_cast<std::size_t>(k)] = Step::allocate(a, rows);
    return all;
  }

  /// The activations of step k.
  /// \throws Error on a step that was not planned
  const Step& step(index_t k) const {
    require_index("Eagle3Draft: step", k, count);
    return steps[static_cast<std::size_t>(k)];
  }
  /// The hidden state that step k reads.
  const Rows<T, hidden>& hidden_in(index_t k) const { return k == 0 ? fc : step(k - 1).out; }
};

/// Gradients that live across the steps of backward.
template <class Draft, class T>
struct Eagle3Scratch {
  using S = accumulate_t<T>;
  using Attention = typename Draft::Attention;
  static constexpr index_t hidden = Draft::hidden, max_steps = Draft::max_steps;

  std::array<Rows<S, Attention::heads*(Attention::nope + Attention::v_dim)>, static_cast<std::size_t>(max_steps)> d_kv;
  std::array<Rows<S, Attention::rope>, static_cast<std::size_t>(max_steps)> d_k_rope;
  Rows<S, hidden> d_state, d_middle, d_normed;
  Rows<S, 2 * hidden> d_fused;
  Rows<S, hidden> d_embeds;
  typename Attention::template Gradient<T> attention;

  template <Allocator A>
  static constexpr Eagle3Scratch allocate(A& a, index_t rows, index_t steps) {
    Eagle3Scratch s{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      take_rows(a, rows, s.d_kv[k]), take_rows(a, rows, s.d_k_rope[k]);
    }
    take_rows(a, rows, s.d_state), take_rows(a, rows, s.d_middle), take_rows(a, rows, s.d_normed);
    take_rows(a, rows, s.d_fused), take_rows(a, rows, s.d_embeds);
    s.attention = Attention::template Gradient<T>::allocate(a, rows);
    return s;
  }
};

}  // namespace K3SPEC_NAMESPACE
