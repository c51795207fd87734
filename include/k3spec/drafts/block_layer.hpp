#pragma once
/// \file
/// One layer of a block draft: pre-norm MLA whose queries are the noise and whose keys are context and noise, then a
/// pre-norm MLP.
/// ```text
/// x ← x + MLA(RMS(x); context ‖ RMS(x)),  x ← x + MLP(RMS(x))
/// ```
/// Every layer reads the same context, which is normed already.
/// defines: BlockLayer

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// H hidden; C context rows, N noise rows.
template <class Given>
struct BlockLayer {
  using Config = complete_dflash_t<Given>;
  static constexpr index_t hidden = Config::hidden_size;
  static constexpr double eps = Config::rms_norm_eps;
  using Norm = KimiRMSNorm<hidden>;
  using Attention = MLA<Config>;
  using MLP = SiTUMLP<hidden, Config::intermediate_size, Config>;
  using Heads = typename Attention::Heads;
  template <class T>
  using Keys = typename Attention::template Keys<T>;

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Norm::template Weights<T> input_layernorm;
    typename Attention::template Weights<T> self_attn;
    typename Norm::template Weights<T> post_attention_layernorm;
    typename MLP::template Weights<T> mlp;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Norm::visit(w.input_layernorm, at / "input_layernorm", v);
    Attention::visit(w.self_attn, at / "self_attn", v);
    Norm::visit(w.post_attention_layernorm, at / "post_attention_layernorm", v);
    MLP::visit(w.mlp, at / "mlp", v);
  }

  /// What backward needs of the noise rows, besides x.
  template <class T>
  struct Saved {
    Rows<T, hidden> input;  // RMS(x)
    typename Attention::template Saved<T> attention;
    Rows<log_sum_exp_t<T>, Attention::heads> lse;
    Rows<T, hidden> middle;  // x + attention
    Rows<T, hidden> normed;  // RMS(middle)
    typename MLP::template Saved<T> mlp;
    Rows<T, hidden> out;  // middle + MLP

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t noise_rows) {
      Saved s;
      take_rows(a, noise_rows, s.input);
      s.attention = Attention::template Saved<T>::allocate(a, noise_rows);
      take_rows(a, noise_rows, s.lse), take_rows(a, noise_rows, s.middle), take_rows(a, noise_rows, s.normed);
      s.mlp = MLP::template Saved<T>::allocate(a, noise_rows);
      take_rows(a, noise_rows, s.out);
      return s;
    }
    AttentionResult<T> attended() const { return {attention.o.matrix(), lse.matrix()}; }
  };

  /// What attention reads of projected rows.
  template <class T>
  static AttentionKeys<const T> attention_keys(const Keys<T>& k) {
    return {k.kv.matrix(), k.k_rope().matrix()};
  }

  /// The noise's attention over `context` and itself.
  template <class T, class Visible>
  static BlockProblem<Heads, T, Visible> attention_problem(const BlockSpan& span, const AttentionKeys<const T>& context,
                                                           const Visible& visible, const Saved<T>& s) {
    return {span,    s.attention.q.matrix(),
            context, attention_keys<T>(s.attention),
            visible, SqrtScale::of<scalar_t<T>>(Heads::qk)};
  }

  // ---- forward ------------------------------------------------------------------------------------------------

  // Each throws Error on other numbers of rows than the span has and `s` was allocated for.

  /// x [N, H] -> queries and latents of the noise
  template <class T, Device D, class W, AnyView X>
  static void before_attention(const D& device, const W& w, const X& x, const Saved<T>& s) {
    require_shape("BlockLayer: x", x, s.input.extent(0), hidden);
    Norm::forward(device, w.input_layernorm, eps, x, s.input);
    Attention::template project_queries<T>(device, w.self_attn, s.input, s.attention);
    Attention::template project_latents<T>(device, w.self_attn, s.input, s.attention);
  }

  /// Queries and latents of the noise, keys of the context -> keys of the noise, s.attention.o
  template <class T, Device D, class Visible, class W>
  static void attend(const D& device, const W& w, const BlockSpan& span, const AttentionKeys<const T>& context,
                     const Visible& visible, const Saved<T>& s) {
    Attention::expand_latents(device, w.self_attn, s.attention.kv_latent, s.attention.kv);
    block_attention_forward(device, attention_problem<T>(span, context, visible, s), s.attended());
  }

  /// x [N, H] and s.attention.o -> s.out
  template <class T, Device D, class W, AnyView X>
  static void after_attention(const D& device, const W& w, const X& x, const Saved<T>& s) {
    require_shape("BlockLayer: x", x, s.middle.extent(0), hidden);
    copy(device, x, s.middle);
    Attention::output(device, w.self_attn, s.input, s.attention, s.middle, Into::accumulate);
    Norm::forward(device, w.post_attention_layernorm, eps, s.middle, s.normed);
    copy(device, s.middle, s.out);
    MLP::forward(device, w.mlp, s.normed, s.out, s.mlp, Into::accumulate);
  }

  // ---- backward -----------------------------------------------------------------------------------------------

  /// Gradients inside a layer; all layers use the same memory.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    typename Attention::template Gradient<T> attention;
    Rows<S, hidden> d_normed;  // of either norm's result
    Rows<S, Attention::heads*(Attention::nope + Attention::v_dim)> d_kv, d_context_kv;
    Rows<S, Attention::rope> d_k_rope, d_context_k_rope;

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t context_rows, index_t noise_rows) {
      Scratch s;
      s.attention = Attention::template Gradient<T>::allocate(a, noise_rows);
      take_rows(a, noise_rows, s.d_normed), take_rows(a, noise_rows, s.d_kv), take_rows(a, noise_rows, s.d_k_rope);
      take_rows(a, context_rows, s.d_context_kv), take_rows(a, context_rows, s.d_context_k_rope);
      return s;
    }
    BlockGradients<S> of_attention() const {
      return {attention.d_q.matrix(),
              {d_context_kv.matrix(), d_context_k_rope.matrix()},
              {d_kv.matrix(), d_k_rope.matrix()}};
    }
  };

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t context_rows, index_t noise_rows) {
    return plan_bytes([&](ArenaPlan& a) {
      Scratch<T>::allocate(a, context_rows, noise_rows);
      a.borrow(Norm::template scratch_bytes<T>(noise_rows));
      a.borrow(MLP::template scratch_bytes<T>(noise_rows));
      a.borrow(Attention::template scratch_bytes<T>(noise_rows));
      a.borrow(Attention::template keys_scratch_bytes<T>(context_rows));
      a.borrow(block_attention_scratch<Heads, T>(context_rows, noise_rows));
    });
  }

  /// Who sees whom.
  template <class Visible>
  struct Pattern {
    BlockSpan span;
    Visible visible;
  };
  /// The rows that a layer read, and what it kept of them: of the context its keys.
  template <class T>
  struct ContextRows {
    Matrix<const T> rows;  ///< [C, H]
    const Keys<T>& keys;
  };
  /// The same of the noise.
  template <class T>
  struct NoiseRows {
    Matrix<const T> rows;  ///< [N, H]
    const Saved<T>& saved;
  };
  /// d_x [N, H] holds the gradient of saved.out and then that of the noise's rows.
  template <class S>
  struct InputGradients {
    Matrix<S> d_x;
    Destination<S> d_context;  ///< [C, H]
  };

  /// Parameter gradients accumulate.
  template <class T, Device D, class Visible>
  static void backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const Pattern<Visible>& pattern, const ContextRows<std::type_identity_t<T>>& context,
                       const NoiseRows<std::type_identity_t<T>>& noise, const InputGradients<accumulate_t<T>>& d) {
    check_rows<T>(pattern.span, context, noise, d);
    const auto& [span, visible] = pattern;
    const Saved<T>& s = noise.saved;
    Scope scope(on.scratch);
    const auto g = Scratch<T>::allocate(on.scratch, span.context_rows(), span.noise_rows());
    MLP::backward(on, w.mlp, d_w.mlp, s.normed, s.mlp, d.d_x, g.d_normed);
    Norm::backward(on, w.post_attention_layernorm, d_w.post_attention_layernorm, eps, s.middle, g.d_normed,
                   {d.d_x, Into::accumulate});
    Attention::output_backward(on, w.self_attn, d_w.self_attn, s.attention, d.d_x, g.attention);
    block_attention_backward(on.device, attention_problem<T>(span, attention_keys<T>(context.keys), visible, s),
                             s.attended(), g.attention.d_o, g.of_attention(), on.scratch);
    Attention::template keys_backward<T>(on, w.self_attn, d_w.self_attn, context.rows, context.keys,
                                         {g.d_context_kv.matrix(), g.d_context_k_rope.matrix()}, d.d_context);
    Attention::project_backward(on, w.self_attn, d_w.self_attn, s.input, s.attention,
                                g.attention.with_keys({g.d_kv.matrix(), g.d_k_rope.matrix()}), g.d_normed);
    Norm::backward(on, w.input_layernorm, d_w.input_layernorm, eps, noise.rows, g.d_normed, {d.d_x, Into::accumulate});
  }

 private:
  template <class T>
  static void check_rows(const BlockSpan& span, const ContextRows<T>& context, const NoiseRows<T>& noise,
                         const InputGradients<accumulate_t<T>>& d) {
    require_shape("BlockLayer: context", context.rows, span.context_rows(), hidden);
    require_shape("BlockLayer: x", noise.rows, span.noise_rows(), hidden);
    require_rows("BlockLayer: context_keys", context.keys.kv_a, span.context_rows());
    require_rows("BlockLayer: s", noise.saved.input, span.noise_rows());
    require_shape("BlockLayer: d_x", d.d_x, span.noise_rows(), hidden);
    d.d_context.check("BlockLayer: d_context", span.context_rows(), hidden);
  }
};

}  // namespace K3SPEC_NAMESPACE
