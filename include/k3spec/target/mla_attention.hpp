#pragma once
/// \file
/// The target's multi-head latent attention, in the absorbed form: with W_kvb's rows of head h split into W_kb [nope,
/// L] and W_vb [v, L], q_nope · k_nope = (q_nope W_kb) · c and Σ p v = W_vb (Σ p c), so that a position is remembered
/// by its latent c [L] and k_rope alone.
///     y = W_o( o ⊙ σ(W_g x) )
/// defines: MlaAttention

#include <cmath>
#include <vector>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/frozen_linear.hpp>
#include <k3spec/target/state.hpp>

namespace k3spec {

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

  /// The weights made ready. Keeps views of the norms.
  template <class T>
  struct Frozen {
    FrozenLinear<T> in, q_up, out;
    std::vector<FrozenLinear<T>> key, value;  ///< W_kb, W_vb per head
    Vector<const T> q_norm, kv_norm;

    explicit Frozen(const Weights<const T>& w) : out{w.o_proj.weight.matrix()}, kv_norm(w.kv_a_layernorm.weight) {
      in = make_in(w);
      if constexpr (has_q_lora) q_up = FrozenLinear<T>{w.q_b_proj.weight.matrix()}, q_norm = w.q_a_layernorm.weight;
      for (index_t h = 0; h < heads; ++h) {
        const auto rows = w.kv_b_proj.weight.matrix();
        key.push_back(FrozenLinear<T>::plain(rows.rows(h * (nope + v_dim), nope)));
        value.push_back(FrozenLinear<T>{rows.rows(h * (nope + v_dim) + nope, v_dim)});
      }
    }

   private:
    static FrozenLinear<T> make_in(const Weights<const T>& w) {
      const auto kv = w.kv_a_proj_with_mqa.weight.matrix();
      const auto q = [&] {
        if constexpr (has_q_lora) return w.q_a_proj.weight.matrix();
        if constexpr (!has_q_lora) return w.q_proj.weight.matrix();
      };
      if constexpr (has_gate) return {kv, q(), w.g_proj.weight.matrix()};
      if constexpr (!has_gate) return {kv, q()};
    }
  };

  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Matrix<S> in;          ///< [rows, projected]
    Matrix<T> q_latent;    ///< [rows, q_lora]
    Matrix<S> q_up;        ///< [rows, heads · (nope + rope)]
    Matrix<S> q;           ///< [rows · heads, L + rope], q_nope W_kb before q_rope
    Matrix<S> o;           ///< [rows · heads, L], Σ p c
    Matrix<S> scores;      ///< [rows · heads, attention_tile]
    Vector<S> top, total;  ///< [rows · heads]
    Matrix<S> value;       ///< [rows, heads · v]
    Matrix<T> gated;       ///< the same

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      const index_t all = rows * heads;
      Scratch s;
      detail::take_matrix(a, s.in, rows, projected);
      if constexpr (has_q_lora) detail::take_matrix(a, s.q_latent, rows, q_width);
      if constexpr (has_q_lora) detail::take_matrix(a, s.q_up, rows, heads * qk_dim);
      detail::take_matrix(a, s.q, all, latent);
      detail::take_matrix(a, s.o, all, kv_lora);
      detail::take_matrix(a, s.scores, all, attention_tile);
      s.top = Vector<S>(a.template take<S>(all), all);
      s.total = Vector<S>(a.template take<S>(all), all);
      detail::take_matrix(a, s.value, rows, v_width);
      detail::take_matrix(a, s.gated, rows, v_width);
      return s;
    }
  };

  /// x, y [sequences · tokens, hidden]; memory(b) is the MlaMemory of sequence b, steps[b] what happens to it.
  template <class T, class Memory, AnyView X, AnyView Y>
  static void forward(const Cpu& cpu, const Frozen<T>& w, const SequenceStep* steps, index_t sequences, Memory&& memory,
                      const X& x, const Y& y, Into into, ArenaSlice& arena) {
    Scope scope(arena);
    const auto s = Scratch<T>::allocate(arena, x.extent(0));
    w.in.forward(cpu, x, s.in);
    for (index_t b = 0; b < sequences; ++b) remember<T>(cpu, w, steps[b], memory(b), s, b * steps[b].tokens);
    if constexpr (has_q_lora) {
      rms_norm_forward<T>(cpu, w.q_norm, Config::target_mla_norm_eps, s.in.columns(q_at, q_width), s.q_latent);
      w.q_up.forward(cpu, s.q_latent, s.q_up);
      absorb<T>(cpu, w, s.q_up.matrix(), s);
    } else {
      absorb<T>(cpu, w, s.in.columns(q_at, q_width), s);
    }
    attend<T>(cpu, steps, sequences, memory, s);
    for (index_t h = 0; h < heads; ++h) {
      w.value[static_cast<std::size_t>(h)].forward(cpu, of_head(s.o, h), s.value.columns(h * v_dim, v_dim));
    }
    if constexpr (has_gate) {
      evaluate(cpu, output_gate_formula(), s.gated, s.value, s.in.columns(gate_at, v_width));
    } else {
      evaluate(cpu, expr::arg<0>, s.gated, s.value);
    }
    w.out.forward(cpu, s.gated, y, into);
  }

 private:
  /// [rows, columns] of [rows · heads, columns]
  template <class S>
  static Matrix<S> of_head(const Matrix<S>& x, index_t h) {
    const index_t n = x.extent(1);
    return Matrix<S>(x.data() + h * n, Extents<dyn, dyn>(x.extent(0) / heads, n), heads * n);
  }

  /// Writes the new positions of one sequence into its cache.
  template <class T>
  static void remember(const Cpu& cpu, const Frozen<T>& w, const SequenceStep& step, const MlaMemory<Config, T>& memory,
                       const Scratch<T>& s, index_t row) {
    const auto from = s.in.rows(row, step.tokens);
    const auto to = memory.rows(step.length, step.tokens);
    rms_norm_forward<T>(cpu, w.kv_norm, Config::target_mla_norm_eps, from.columns(c_at, kv_lora),
                        to.columns(0, kv_lora));
    evaluate(cpu, expr::arg<0>, to.columns(kv_lora, rope), from.columns(rope_at, rope));
  }

  /// q [rows, heads · (nope + rope)] -> s.q
  template <class T>
  static void absorb(const Cpu& cpu, const Frozen<T>& w, const Matrix<accumulate_t<T>>& q, const Scratch<T>& s) {
    for (index_t h = 0; h < heads; ++h) {
      const auto to = of_head(s.q, h);
      w.key[static_cast<std::size_t>(h)].forward(cpu, q.columns(h * qk_dim, nope), to.columns(0, kv_lora));
      evaluate(cpu, expr::arg<0>, to.columns(kv_lora, rope), q.columns(h * qk_dim + nope, rope));
    }
  }

  template <class T, class Memory>
  static void attend(const Cpu& cpu, const SequenceStep* steps, index_t sequences, Memory& memory,
                     const Scratch<T>& s) {
    using S = accumulate_t<T>;
    constexpr index_t height = 16;
    const index_t tokens = steps[0].tokens, blocks = (tokens + height - 1) / height;
    const index_t work = sequences * tokens * heads * latent * 2 * (steps[0].length + (tokens + 1) / 2);
    parallel_for(cpu::for_work(cpu, work), sequences * blocks, [&](index_t i) {
      const index_t b = i / blocks, t = i % blocks * height, count = std::min(height, tokens - t);
      const index_t row = (b * tokens + t) * heads, rows = count * heads;
      const auto part = [&](const auto& v) { return v.rows(row, rows); };
      LatentAttention<S, T>{part(s.q),
                            Matrix<const T>(memory(b)),
                            part(s.o),
                            part(s.scores),
                            part(s.top),
                            part(s.total),
                            steps[b].length + t,
                            heads,
                            1 / std::sqrt(static_cast<double>(qk_dim))}
          .run();
    });
  }
};

}  // namespace k3spec
