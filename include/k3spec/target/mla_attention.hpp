#pragma once
/// \file
/// The target's multi-head latent attention, in the absorbed form: a position is remembered by its latent and k_rope.
/// ```text
/// y = W_o( o ⊙ σ(W_g x) )
/// ```
/// defines: MlaAttention

#include <span>

#include <k3spec/core/held.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/target/absorbed_attention.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/prepacked_linear.hpp>

namespace K3SPEC_NAMESPACE {

/// Multi-head latent attention as a layer of the target, forward only.
template <class Config>
struct MlaAttention {
  using Layer = MLA<Config>;
  static constexpr index_t heads = Layer::heads, nope = Layer::nope, rope = Layer::rope, v_dim = Layer::v_dim;
  static constexpr index_t kv_lora = Layer::kv_lora, qk_dim = Layer::qk_dim, latent = kv_lora + rope;
  static constexpr bool has_q_lora = Layer::has_q_lora, has_gate = Layer::has_gate;
  static constexpr index_t v_width = heads * v_dim;
  static_assert(Layer::input == Config::hidden_size, "K3 target: the attention reads hidden_size features");

  template <class T>
  using Weights = typename Layer::template Weights<T>;

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Layer::visit(w, at, v);
  }

  // Columns of the one product that all projections of x make.
  static constexpr index_t q_width = has_q_lora ? Layer::q_lora : heads * qk_dim;
  static constexpr index_t c_at = 0, rope_at = kv_lora, q_at = latent, gate_at = q_at + q_width;
  static constexpr index_t projected = gate_at + (has_gate ? v_width : 0);

  /// The weights, prepacked. Keeps views of the norms.
  template <class T>
  struct Prepacked {
    PrepackedLinear<T> in, q_up, out;
    AbsorbedAttention<Config, T> attention;
    using D = place_t<T>;
    using Host = value_t<T>;
    Held<D, Host, dyn> q_norm, kv_norm;

    template <class Tensor>
    Prepacked(const D& device, const Weights<Tensor>& w)
        : in(make_in(device, w)),
          out{device, {w.o_proj.weight.matrix()}},
          attention(device, on_host(w.kv_b_proj.weight).view().matrix(), kept_as(w.kv_b_proj.weight)),
          kv_norm(device, w.kv_a_layernorm.weight) {
      if constexpr (has_q_lora) {
        q_up = PrepackedLinear<T>{device, {w.q_b_proj.weight.matrix()}};
        q_norm = Held<D, Host, dyn>(device, w.q_a_layernorm.weight);
      }
    }

    /// What they take.
    std::size_t bytes() const {
      return static_cast<std::size_t>(in.bytes() + q_up.bytes() + out.bytes() + attention.bytes()) + q_norm.bytes() +
             kv_norm.bytes();
    }

   private:
    template <class W>
    static PrepackedLinear<T> make_in(const D& device, const W& w) {
      const auto kv = w.kv_a_proj_with_mqa.weight.matrix();
      const auto q = [&] {
        if constexpr (has_q_lora) return w.q_a_proj.weight.matrix();
        if constexpr (!has_q_lora) return w.q_proj.weight.matrix();
      };
      if constexpr (has_gate) return {device, {kv, q(), w.g_proj.weight.matrix()}};
      if constexpr (!has_gate) return {device, {kv, q()}};
    }
  };

  /// Working memory of a forward.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Matrix<S> in;        ///< [rows, projected]
    Matrix<T> q_latent;  ///< [rows, q_lora]
    Matrix<S> q_up;      ///< [rows, heads · (nope + rope)]
    typename AbsorbedAttention<Config, T>::Scratch attention;
    Matrix<S> value;  ///< [rows, heads · v]
    Matrix<T> gated;  ///< the same

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      Scratch s;
      detail::take_matrix(a, s.in, rows, projected);
      if constexpr (has_q_lora) detail::take_matrix(a, s.q_latent, rows, q_width);
      if constexpr (has_q_lora) detail::take_matrix(a, s.q_up, rows, heads * qk_dim);
      s.attention = AbsorbedAttention<Config, T>::Scratch::allocate(a, rows);
      detail::take_matrix(a, s.value, rows, v_width);
      detail::take_matrix(a, s.gated, rows, v_width);
      return s;
    }
  };

  /// x, y [rows, hidden]; the new tokens' latents are written into their places in the sequences' caches.
  /// \throws Error on other shapes, and on sequences of rows that x has not or that their caches have no place for
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Prepacked<T>& w, std::span<const LatentSequence<T>> sequences, const X& x,
                      const Y& y, Into into, ArenaSlice& arena) {
    require_shape("MlaAttention: x", x, x.extent(0), Config::hidden_size);
    require_shape("MlaAttention: y", y, x.extent(0), Config::hidden_size);
    for (const auto& b : sequences) {
      require_part("MlaAttention: rows of a sequence", b.row, b.tokens, x.extent(0));
      require_part("MlaAttention: new positions", b.sees.before, b.tokens, b.cache.extent(0));
    }
    Scope scope(arena);
    const auto s = Scratch<T>::allocate(arena, x.extent(0));
    w.in.forward(device, x, s.in);
    for (const auto& b : sequences) remember<T>(device, w, b, s);
    if constexpr (has_q_lora) {
      rms_norm_forward<T>(device, w.q_norm.view(), Config::target_mla_norm_eps, s.in.columns(q_at, q_width),
                          s.q_latent);
      w.q_up.forward(device, s.q_latent, s.q_up);
      w.attention.forward(device, sequences, s.q_up, s.value, s.attention);
    } else {
      w.attention.forward(device, sequences, s.in.columns(q_at, q_width), s.value, s.attention);
    }
    if constexpr (has_gate) {
      evaluate(device, output_gate_formula(), s.gated, s.value, s.in.columns(gate_at, v_width));
    } else {
      copy(device, s.value, s.gated);
    }
    w.out.forward(device, s.gated, y, into);
  }

 private:
  /// Writes the new positions of one sequence into its cache.
  template <class T, Device D>
  static void remember(const D& device, const Prepacked<T>& w, const LatentSequence<T>& sequence, const Scratch<T>& s) {
    const auto from = s.in.rows(sequence.row, sequence.tokens);
    const auto to = sequence.cache.rows(sequence.sees.before, sequence.tokens);
    rms_norm_forward<T>(device, w.kv_norm.view(), Config::target_mla_norm_eps, from.columns(c_at, kv_lora),
                        to.columns(0, kv_lora));
    copy(device, from.columns(rope_at, rope), to.columns(kv_lora, rope));
  }
};

}  // namespace K3SPEC_NAMESPACE
