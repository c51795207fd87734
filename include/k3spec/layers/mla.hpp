#pragma once
/// \file
/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), without the attention itself: the projections before it
/// (and the rotation of their rope slices, where the backbone has one) and the gate and projection after it. What lies
/// between differs by draft and is an op of its own.
/// defines: MLA

#include <type_traits>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/config/check.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/latent_keys.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/gated_activation.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>

namespace K3SPEC_NAMESPACE {

/// q = W_qb RMS(W_qa x), or W_q x without q_lora_rank; [c, k_rope] = W_kva x; [k_nope, v] = W_kvb RMS(c);
/// y = W_o (o ⊙ σ(W_g x)), or W_o o without the output gate. o is the attention's result.
/// Heads of q and k are [nope ‖ rope]; k_rope is one slice per token that all heads share.
template <ForAttention Given>
struct MLA : detail::CheckedAttention<Given>, LatentKeys<complete_attention_t<Given>> {
  using Config = complete_attention_t<Given>;
  using OfKeys = LatentKeys<Config>;
  static constexpr index_t input = OfKeys::input;
  static constexpr index_t hidden = Config::hidden_size;
  static constexpr index_t heads = Config::num_attention_heads;
  static constexpr index_t nope = Config::qk_nope_head_dim, rope = Config::qk_rope_head_dim;
  static constexpr index_t v_dim = Config::v_head_dim, kv_lora = Config::kv_lora_rank;
  static constexpr index_t qk_dim = nope + rope;
  static constexpr bool has_q_lora = Config::q_lora_rank.has_value();
  static constexpr index_t q_lora = Config::q_lora_rank.value_or(1);
  static constexpr bool has_gate = Config::mla_use_output_gate;
  /// Whether positions are told by rotating the rope slice; else nothing depends on them.
  static constexpr bool has_rope = !Config::mla_use_nope;

  using QA = std::conditional_t<has_q_lora, Linear<input, q_lora>, Absent>;
  using QNorm = std::conditional_t<has_q_lora, KimiRMSNorm<q_lora>, Absent>;
  using QB = std::conditional_t<has_q_lora, Linear<q_lora, heads * qk_dim>, Absent>;
  using Q = std::conditional_t<has_q_lora, Absent, Linear<input, heads * qk_dim>>;
  using typename OfKeys::KvA, typename OfKeys::KvB, typename OfKeys::KvNorm;
  template <class T>
  using Keys = typename OfKeys::template Keys<T>;
  using G = std::conditional_t<has_gate, Linear<input, heads * v_dim>, Absent>;
  using O = Linear<heads * v_dim, hidden>;
  /// As attention ops are told of them.
  using Heads = AttentionHeads<heads, nope, rope, v_dim>;

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename QA::template Weights<T> q_a_proj;
    typename QNorm::template Weights<T> q_a_layernorm;
    typename QB::template Weights<T> q_b_proj;
    typename Q::template Weights<T> q_proj;
    typename KvA::template Weights<T> kv_a_proj_with_mqa;
    typename KvNorm::template Weights<T> kv_a_layernorm;
    typename KvB::template Weights<T> kv_b_proj;
    typename G::template Weights<T> g_proj;
    typename O::template Weights<T> o_proj;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    QA::visit(w.q_a_proj, at / "q_a_proj", v);
    QNorm::visit(w.q_a_layernorm, at / "q_a_layernorm", v);
    QB::visit(w.q_b_proj, at / "q_b_proj", v);
    Q::visit(w.q_proj, at / "q_proj", v);
    KvA::visit(w.kv_a_proj_with_mqa, at / "kv_a_proj_with_mqa", v);
    KvNorm::visit(w.kv_a_layernorm, at / "kv_a_layernorm", v);
    KvB::visit(w.kv_b_proj, at / "kv_b_proj", v);
    G::visit(w.g_proj, at / "g_proj", v);
    O::visit(w.o_proj, at / "o_proj", v);
  }

  /// What backward needs of forward, besides x.
  template <class T>
  struct Saved : Keys<T> {
    Rows<T, q_lora> q_a, q_latent;       // before and after q_a_layernorm
    Rows<T, heads * qk_dim> q;           // heads of [nope ‖ rope]
    Rows<T, heads * v_dim> o;            // the attention's result, written by its op
    Rows<T, heads * v_dim> gate, gated;  // W_g x, o ⊙ σ(W_g x)

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      Saved s;
      static_cast<Keys<T>&>(s) = Keys<T>::allocate(a, rows);
      if constexpr (has_q_lora) take_rows(a, rows, s.q_a), take_rows(a, rows, s.q_latent);
      take_rows(a, rows, s.q), take_rows(a, rows, s.o);
      if constexpr (has_gate) take_rows(a, rows, s.gate), take_rows(a, rows, s.gated);
      return s;
    }

    /// Rows [begin, begin + n) of everything.
    Saved rows(index_t begin, index_t n) const {
      Saved s;
      if constexpr (has_q_lora) s.q_a = q_a.rows(begin, n), s.q_latent = q_latent.rows(begin, n);
      s.q = q.rows(begin, n), s.kv_a = this->kv_a.rows(begin, n), s.kv_latent = this->kv_latent.rows(begin, n);
      s.kv = this->kv.rows(begin, n), s.o = o.rows(begin, n);
      if constexpr (has_gate) s.gate = gate.rows(begin, n), s.gated = gated.rows(begin, n);
      return s;
    }

    const auto& projected() const {
      if constexpr (has_gate) return gated;
      if constexpr (!has_gate) return o;
    }
  };

  // Each throws Error on other shapes, and on `saved`, keys or gradients of other rows than they were allocated for.

  /// x [rows, input] -> saved.q, kv_a, kv
  template <class T, Device D, class W, AnyView X>
  static void project(const D& device, const W& w, const X& x, const Saved<T>& s) {
    project_queries<T>(device, w, x, s);
    OfKeys::template project_keys<T>(device, w, x, s);
  }

  /// x [rows, input] -> saved.q
  template <class T, Device D, class W, AnyView X>
  static void project_queries(const D& device, const W& w, const X& x, const Saved<T>& s) {
    require_shape("MLA: x", x, s.q.extent(0), input);
    if constexpr (has_q_lora) {
      QA::forward(device, w.q_a_proj, x, s.q_a);
      QNorm::forward(device, w.q_a_layernorm, Config::mla_norm_eps, s.q_a, s.q_latent);
      QB::forward(device, w.q_b_proj, s.q_latent, s.q);
    } else {
      Q::forward(device, w.q_proj, x, s.q);
    }
  }

  /// Turns the rope slices of saved.q and of its keys to their positions, in place. Nothing without rope.
  template <class T, Device D>
  static void rotate(const D& device, const RotaryPositions& positions, const Saved<T>& s) {
    if constexpr (has_rope) {
      rope_forward(device,
                   RopeProblem<Heads, T>{rope_frequencies<Config>(), positions, s.q.matrix(), s.k_rope().matrix()});
    }
  }

  /// d_q [rows, heads·(nope+rope)] and d_k_rope [rows, rope] of the turned slices -> of those before, in place.
  template <Device D, AnyView DQ, AnyView DKR>
  static void rotate_back(const D& device, const RotaryPositions& positions, const DQ& d_q, const DKR& d_k_rope) {
    if constexpr (has_rope) {
      using S = typename DQ::value_type;
      rope_backward(device,
                    RopeProblem<Heads, S>{rope_frequencies<Config>(), positions, d_q.matrix(), d_k_rope.matrix()});
    }
  }

  /// saved.o [rows, heads·v] and x -> y [rows, hidden], overwritten or added to before the one rounding
  template <class T, Device D, class W, AnyView X, AnyView Y>
  static void output(const D& device, const W& w, const X& x, const Saved<T>& s, const Y& y,
                     Into into = Into::overwrite) {
    require_shape("MLA: x", x, s.o.extent(0), input);
    require_shape("MLA: y", y, s.o.extent(0), hidden);
    if constexpr (has_gate) {
      G::forward(device, w.g_proj, x, s.gate);
      evaluate(device, output_gate_formula(), s.gated, s.o, s.gate);
    }
    O::forward(device, w.o_proj, s.projected(), y, into);
  }

  /// Gradients between the stages of backward.
  template <class T>
  struct Gradient {
    using S = accumulate_t<T>;
    Rows<S, heads * v_dim> d_o, d_gate;
    Rows<S, heads * qk_dim> d_q;
    /// Of the keys, wherever they are: d_kv [rows, heads·(nope+v)], d_k_rope [rows, rope].
    AttentionKeys<const S> d_keys{};

    template <Allocator A>
    static constexpr Gradient allocate(A& a, index_t rows) {
      Gradient g;
      take_rows(a, rows, g.d_o), take_rows(a, rows, g.d_q);
      if constexpr (has_gate) take_rows(a, rows, g.d_gate);
      return g;
    }
    Gradient with_keys(const AttentionKeys<const S>& keys) const {
      Gradient g = *this;
      g.d_keys = keys;
      return g;
    }
  };

  /// d_y [rows, hidden] -> g.d_o, g.d_gate
  template <class T, Device D, AnyView DY>
  static void output_backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                              const Saved<T>& s, const DY& d_y, const Gradient<T>& g) {
    using S = accumulate_t<T>;
    require_shape("MLA: d_y", d_y, s.o.extent(0), hidden);
    require_rows("MLA: g", g.d_o, s.o.extent(0));
    O::backward_weight(on.device, d_w.o_proj, s.projected(), d_y);
    if constexpr (has_gate) {
      Scope scope(on.scratch);
      Rows<S, heads * v_dim> d_gated;
      take_rows(on.scratch, d_y.extent(0), d_gated);
      O::backward_input(on.device, w.o_proj, d_y, d_gated);
      differentiate(on.device, output_gate_formula(), d_gated, gradients(overwrite(g.d_o), overwrite(g.d_gate)),
                    on.scratch, s.o, s.gate);
    } else {
      O::backward_input(on.device, w.o_proj, d_y, g.d_o);
    }
  }

  /// g.d_q, g.d_gate and g.d_keys -> d_x [rows, input]
  template <class T, Device D, AnyView X>
  static void project_backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                               const X& x, const Saved<T>& s, const Gradient<T>& g,
                               const Destination<accumulate_t<T>>& d_x) {
    require_rows("MLA: g", g.d_q, x.extent(0));
    require_rows("MLA: s", s.q, x.extent(0));
    OfKeys::template keys_backward<T>(on, w, d_w, x, s, g.d_keys, d_x);
    query_backward(on, w, d_w, x, s, g, d_x.more());
    if constexpr (has_gate) G::backward(on.device, w.g_proj, d_w.g_proj, x, g.d_gate, d_x.more());
  }

  /// Bytes of scratch that either stage of backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    using S = accumulate_t<T>;
    return plan_bytes([&](ArenaPlan& a) {
      const auto take_row = [&](index_t n) { a.take<S>(rows * n); };
      const std::size_t start = a.used();
      if constexpr (has_gate) take_row(heads * v_dim);
      a.release(start);
      a.borrow(OfKeys::template keys_scratch_bytes<T>(rows));
      if constexpr (has_q_lora) {
        take_row(q_lora), take_row(q_lora);
        a.borrow(QNorm::template scratch_bytes<T>(rows));
      }
    });
  }

 private:
  template <class T, Device D, AnyView X>
  static void query_backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                             const X& x, const Saved<T>& s, const Gradient<T>& g,
                             const Destination<accumulate_t<T>>& d_x) {
    using S = accumulate_t<T>;
    if constexpr (has_q_lora) {
      Scope scope(on.scratch);
      Rows<S, q_lora> d_latent, d_q_a;
      take_rows(on.scratch, x.extent(0), d_latent), take_rows(on.scratch, x.extent(0), d_q_a);
      QB::backward(on.device, w.q_b_proj, d_w.q_b_proj, s.q_latent, g.d_q, d_latent);
      QNorm::backward(on, w.q_a_layernorm, d_w.q_a_layernorm, Config::mla_norm_eps, s.q_a, d_latent, d_q_a);
      QA::backward(on.device, w.q_a_proj, d_w.q_a_proj, x, d_q_a, d_x);
    } else {
      Q::backward(on.device, w.q_proj, d_w.q_proj, x, g.d_q, d_x);
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
