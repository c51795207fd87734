#pragma once
/// \file
/// What DFlash and DSpark drafts share: context = RMS(fc([target layers])) once, then layers that carry noise rows
/// along and attend to [context ‖ noise], then a final norm.
/// defines: BlockBackbone

#include <array>

#include <k3spec/config/check.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/drafts/block_layer.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// H hidden, A = num_target_layers · target_hidden_size; C context rows, N noise rows, in the order of BlockSpan.
template <ForDFlash Given>
struct BlockBackbone : CheckedDFlash<Given> {
  using Config = complete_dflash_t<Given>;
  static_assert(Config::backbone == Backbone::kimi_k3, "BlockBackbone: this backbone is not implemented");
  static constexpr index_t hidden = Config::hidden_size, block_size = Config::block_size;
  static constexpr index_t num_layers = Config::num_draft_layers;
  static constexpr index_t target_width = Config::num_target_layers * Config::target_hidden_size;
  static constexpr double eps = Config::rms_norm_eps;

  using Fc = Linear<target_width, hidden>;
  using Norm = KimiRMSNorm<hidden>;
  using Layer = BlockLayer<Config>;
  using Attention = typename Layer::Attention;

  /// The backbone's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Fc::template Weights<T> fc;
    typename Norm::template Weights<T> hidden_norm;
    std::array<typename Layer::template Weights<T>, static_cast<std::size_t>(num_layers)> layers;
    typename Norm::template Weights<T> norm;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Fc::visit(w.fc, at / "fc", v);
    Norm::visit(w.hidden_norm, at / "hidden_norm", v);
    const Path layers = at / "layers";
    for (index_t i = 0; i < num_layers; ++i) Layer::visit(w.layers[static_cast<std::size_t>(i)], layers / i, v);
    Norm::visit(w.norm, at / "norm", v);
  }

  /// What backward needs of forward, besides target_hidden and noise.
  template <class T>
  struct Activations {
    Rows<T, hidden> fc, context;  // [C, H] before and after hidden_norm
    std::array<typename Layer::template Keys<T>, static_cast<std::size_t>(num_layers)> context_keys;
    std::array<typename Layer::template Saved<T>, static_cast<std::size_t>(num_layers)> layers;
    Rows<T, hidden> out;  // [N, H] after the final norm

    template <Allocator A>
    static constexpr Activations allocate(A& a, index_t context_rows, index_t noise_rows) {
      Activations all{};
      take_rows(a, context_rows, all.fc), take_rows(a, context_rows, all.context);
      for (auto& keys : all.context_keys) keys = Layer::template Keys<T>::allocate(a, context_rows);
      for (auto& layer : all.layers) layer = Layer::template Saved<T>::allocate(a, noise_rows);
      take_rows(a, noise_rows, all.out);
      return all;
    }

    /// What layer i reads.
    Rows<const T, hidden> layer_input(index_t i, const Rows<const T, hidden>& noise) const {
      return i == 0 ? noise : Rows<const T, hidden>(layers[static_cast<std::size_t>(i - 1)].out);
    }
  };

  /// What is run: target_hidden [C, A], noise [N, H], the embedded blocks, and who sees whom.
  template <class T, class Visible>
  struct Inputs {
    Rows<const T, target_width> target_hidden;
    Rows<const T, hidden> noise;
    BlockSpan span;
    Visible visible;
  };

  // ---- forward ------------------------------------------------------------------------------------------------

  // Each throws Error on other numbers of rows than the span has and the activations were allocated for.

  /// x -> acts.out [N, H]
  template <class T, Device D, class Visible, class W>
  static void forward(const D& device, const W& w, const Inputs<T, Visible>& x, const Activations<T>& acts) {
    check_rows(x, acts);
    project_context<T>(device, w, x.target_hidden, acts.fc, acts.context);
    forward_noise<T>(device, w, x.noise, acts, [&](index_t i, const auto& layer) {
      const auto n = static_cast<std::size_t>(i);
      Attention::template project_keys<T>(device, w.layers[n].self_attn, acts.context, acts.context_keys[n]);
      Layer::template attend<T>(device, w.layers[n], x.span, Layer::template attention_keys<T>(acts.context_keys[n]),
                                x.visible, layer);
    });
  }

  /// target_hidden [n, A] -> fc, context [n, H]: any rows of the context, whose keys are then
  /// Attention::project_keys(w.layers[i].self_attn, context)
  template <class T, Device D, class W>
  static void project_context(const D& device, const W& w, const Rows<const T, target_width>& target_hidden,
                              const Rows<T, hidden>& fc, const Rows<T, hidden>& context) {
    require_rows("BlockBackbone: fc", fc, target_hidden.extent(0));
    require_rows("BlockBackbone: context", context, target_hidden.extent(0));
    Fc::forward(device, w.fc, target_hidden, fc);
    Norm::forward(device, w.hidden_norm, eps, fc, context);
  }

  /// Runs all layers over the noise: acts.layers and acts.out are all that it touches of acts. attend(i, saved) is to
  /// set saved.attention.o of layer i from its queries and latents and from the context's keys, wherever those are.
  template <class T, Device D, class W, class Attend>
  static void forward_noise(const D& device, const W& w, const Rows<const T, hidden>& noise, const Activations<T>& acts,
                            Attend&& attend) {
    require_rows("BlockBackbone: noise", noise, acts.out.extent(0));
    for (index_t i = 0; i < num_layers; ++i) {
      const auto n = static_cast<std::size_t>(i);
      const auto x = acts.layer_input(i, noise);
      Layer::template before_attention<T>(device, w.layers[n], x, acts.layers[n]);
      attend(i, acts.layers[n]);
      Layer::template after_attention<T>(device, w.layers[n], x, acts.layers[n]);
    }
    Norm::forward(device, w.norm, eps, acts.layers.back().out, acts.out);
  }

  // ---- backward -----------------------------------------------------------------------------------------------

  /// Gradients that live across the layers.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Rows<S, hidden> d_x;              // [N, H]
    Rows<S, hidden> d_context, d_fc;  // [C, H]

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t context_rows, index_t noise_rows) {
      Scratch s;
      take_rows(a, noise_rows, s.d_x), take_rows(a, context_rows, s.d_context), take_rows(a, context_rows, s.d_fc);
      return s;
    }
  };

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t context_rows, index_t noise_rows) {
    return plan_bytes([&](ArenaPlan& a) {
      Scratch<T>::allocate(a, context_rows, noise_rows);
      a.borrow(Norm::template scratch_bytes<T>(context_rows));
      a.borrow(Norm::template scratch_bytes<T>(noise_rows));
      a.borrow(Layer::template scratch_bytes<T>(context_rows, noise_rows));
    });
  }

  /// Where the gradients of the inputs go: d_noise [N, H] and d_target_hidden [C, A].
  template <class S>
  struct InputGradients {
    Destination<S> d_noise, d_target_hidden;
  };

  /// d_out [N, H] -> parameter gradients, which accumulate, and d.
  template <class T, Device D, class Visible>
  static void backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const Inputs<std::type_identity_t<T>, Visible>& x, const Activations<T>& acts,
                       const Rows<const accumulate_t<T>, hidden>& d_out, const InputGradients<accumulate_t<T>>& d) {
    check_rows(x, acts);
    check_gradients(x.span, d_out, d);
    Scope scope(on.scratch);
    const auto g = Scratch<T>::allocate(on.scratch, x.span.context_rows(), x.span.noise_rows());
    Norm::backward(on, w.norm, d_w.norm, eps, acts.layers.back().out, d_out, g.d_x);
    const typename Layer::template Pattern<Visible> pattern{x.span, x.visible};
    for (index_t i = num_layers - 1; i >= 0; --i) {
      const auto n = static_cast<std::size_t>(i);
      const Into into = i == num_layers - 1 ? Into::overwrite : Into::accumulate;
      Layer::template backward<T>(
          on, w.layers[n], d_w.layers[n], pattern, {acts.context.matrix(), acts.context_keys[n]},
          {acts.layer_input(i, x.noise).matrix(), acts.layers[n]}, {g.d_x.matrix(), {g.d_context, into}});
    }
    copy(on.device, g.d_x, d.d_noise.to, d.d_noise.into);
    Norm::backward(on, w.hidden_norm, d_w.hidden_norm, eps, acts.fc, g.d_context, g.d_fc);
    Fc::backward(on.device, w.fc, d_w.fc, x.target_hidden, g.d_fc, d.d_target_hidden);
  }

 private:
  template <class T, class Visible>
  static void check_rows(const Inputs<T, Visible>& x, const Activations<T>& acts) {
    require_rows("BlockBackbone: target_hidden", x.target_hidden, x.span.context_rows());
    require_rows("BlockBackbone: noise", x.noise, x.span.noise_rows());
    require_rows("BlockBackbone: activations: context", acts.context, x.span.context_rows());
    require_rows("BlockBackbone: activations: out", acts.out, x.span.noise_rows());
  }

  template <class S>
  static void check_gradients(const BlockSpan& span, const Rows<const S, hidden>& d_out, const InputGradients<S>& d) {
    require_rows("BlockBackbone: d_out", d_out, span.noise_rows());
    d.d_noise.check("BlockBackbone: d_noise", span.noise_rows(), hidden);
    d.d_target_hidden.check("BlockBackbone: d_target_hidden", span.context_rows(), target_width);
  }
};

}  // namespace K3SPEC_NAMESPACE
