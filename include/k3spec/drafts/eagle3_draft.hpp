#pragma once
/// \file
/// EAGLE-3 draft (arXiv 2503.01840) with the attention block of Kimi K3 or DeepSeek-V3: one fused MLA layer over
/// [embedding ‖ hidden state], unrolled over test-time-training (TTT) steps.
/// defines: Eagle3Draft

#include <array>
#include <string>

#include <k3spec/config/complete.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/drafts/aux_projection.hpp>
#include <k3spec/drafts/eagle3_activations.hpp>
#include <k3spec/drafts/eagle3_head.hpp>
#include <k3spec/drafts/shift_ids_left.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/rope_frequencies.hpp>
#include <k3spec/ops/ttt_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// Shapes below: R = sequences · length rows, H hidden, A = num_aux_hidden_states · target_hidden_size.
template <ForEagle3 Given>
struct Eagle3Draft : CheckedEagle3<Given>, Eagle3Head<Given> {
  using Config = complete_eagle3_t<Given>;
  using config = Config;
  static constexpr DraftKind kind = DraftKind::eagle3;
  static constexpr index_t hidden = Config::hidden_size;
  static constexpr index_t num_aux = Config::num_aux_hidden_states;
  static constexpr index_t aux_size = Config::target_hidden_size;
  static constexpr index_t aux_width = num_aux * aux_size;
  static constexpr index_t vocabulary = Config::vocab_size, draft_vocabulary = Config::draft_vocab_size;
  static constexpr double eps = Config::rms_norm_eps;
  /// The longest unroll that activations can be planned for.
  static constexpr index_t max_steps = max_attention_steps;

  /// The config with attention that reads embedding and state side by side.
  struct AttentionConfig : Config {
    static constexpr index_t attention_input_size = 2 * Config::hidden_size;
  };
  using Aux = AuxProjection<Config>;
  using Fc = typename Aux::Fc;
  using AuxNorm = typename Aux::Norm;
  using Norm = typename Eagle3Head<Given>::Norm;
  using Attention = MLA<AttentionConfig>;
  using MLP =
      std::conditional_t<Config::backbone == Backbone::kimi_k3, SiTUMLP<hidden, Config::intermediate_size, Config>,
                         SwiGLUMLP<hidden, Config::intermediate_size>>;
  using Head = typename Eagle3Head<Given>::Head;
  using Scale = std::conditional_t<Config::softmax_mscale == SoftmaxMscale::none, SqrtScale, YarnScale<Config>>;
  using Heads = typename Attention::Heads;

  /// The draft's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    View<stored_t<T>, vocabulary, hidden> embed_tokens;
    std::array<typename AuxNorm::template Weights<T>, Config::fc_norm ? num_aux : 0> fc_norm;
    typename Fc::template Weights<T> fc;
    typename Norm::template Weights<T> input_layernorm, hidden_norm, post_attention_layernorm, norm;
    typename Attention::template Weights<T> self_attn;
    typename MLP::template Weights<T> mlp;
    typename Head::template Weights<T> lm_head;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    const Path model = at / "model";
    if constexpr (Config::train_embeddings) {
      v(model / "embed_tokens" / "weight", w.embed_tokens, Init::normal);
    } else {
      v(model / "embed_tokens" / "weight", w.embed_tokens, Frozen{Init::normal});
    }
    if constexpr (Config::fc_norm) {
      for (index_t i = 0; i < num_aux; ++i)
        AuxNorm::visit(w.fc_norm[static_cast<std::size_t>(i)], model / "fc_norm" / i, v);
    }
    Fc::visit(w.fc, model / "fc", v);
    const Path layers = model / "layers";
    const Path layer = layers / 0;
    Norm::visit(w.input_layernorm, layer / "input_layernorm", v);
    Norm::visit(w.hidden_norm, layer / "hidden_norm", v);
    Attention::visit(w.self_attn, layer / "self_attn", v);
    Norm::visit(w.post_attention_layernorm, layer / "post_attention_layernorm", v);
    MLP::visit(w.mlp, layer / "mlp", v);
    Norm::visit(w.norm, model / "norm", v);
    Head::visit(w.lm_head, at / "lm_head", v);
  }

  template <class T>
  using Step = Eagle3Step<Eagle3Draft, T>;
  template <class T>
  using Activations = Eagle3Activations<Eagle3Draft, T>;
  template <class T>
  using Scratch = Eagle3Scratch<Eagle3Draft, T>;

  /// What is run: ids [R], in sequences of `length`, aux [R, A], who sees whom, and the positions of step 0.
  template <class T, class Visible>
  struct Inputs {
    Vector<const placed_as_t<index_t, T>> ids;
    index_t length;
    Rows<const T, aux_width> aux;
    Visible visible;
    RotaryPositions positions;

    AttentionSpan span() const { return {aux.extent(0) / length, length, length}; }
  };
  /// The keys that a step's queries see.
  template <class T, class Visible>
  struct SeenKeys {
    AttentionSpan span;
    AttentionSteps<const T> steps;  ///< of steps 0 … k, this one's last
    Visible visible;
  };

  // ---- forward ------------------------------------------------------------------------------------------------

  // Each throws Error on other numbers of rows than were allocated, and on a token that is none.

  /// aux [R, A] -> fc [R, H]; once per batch.
  template <class T, Device D, class W>
  static void project_hidden_states(const D& device, const W& w, const Rows<const T, aux_width>& aux,
                                    const Activations<T>& acts) {
    Aux::template forward<T>(device, w, aux, acts.aux_normed, acts.fc);
  }

  /// A step's attention.
  template <class T, class Visible>
  static TttProblem<Heads, T, Visible> attention_problem(const Step<T>& s, const SeenKeys<T, Visible>& keys) {
    return {keys.span, s.attention.q.matrix(), keys.steps, keys.visible, Scale::template of<scalar_t<T>>(Heads::qk)};
  }

  /// One step on s.ids [R] and `hidden_in` [R, H].
  /// With a span of fewer queries than keys, steps[0] is a cache and this step's keys are not among steps unless later.
  template <class T, Device D, class Visible, class W>
  static void step_forward(const D& device, const W& w, const Step<T>& s, const Rows<const T, hidden>& hidden_in,
                           const SeenKeys<std::type_identity_t<T>, Visible>& keys, const RotaryPositions& positions) {
    before_attention(device, w, s, hidden_in, positions);
    ttt_attention_forward(device, attention_problem<T>(s, keys), s.attended());
    after_attention(device, w, s, hidden_in);
  }

  /// Embeds, norms, projects and rotates: everything of a step up to its queries, keys and values. `positions` are
  /// those of its rows, the step's own shift among them.
  template <class T, Device D, class W>
  static void before_attention(const D& device, const W& w, const Step<T>& s, const Rows<const T, hidden>& hidden_in,
                               const RotaryPositions& positions) {
    require_rows("Eagle3Draft: hidden_in", hidden_in, s.ids.extent(0));
    require_rows("Eagle3Draft: step", s.fused, s.ids.extent(0));
    embedding_forward<T>(device, s.ids, w.embed_tokens, s.embeds);
    Norm::forward(device, w.input_layernorm, eps, s.embeds, s.fused.template columns<0, hidden>());
    Norm::forward(device, w.hidden_norm, eps, hidden_in, s.fused.template columns<hidden, hidden>());
    Attention::project(device, w.self_attn, s.fused, s.attention);
    Attention::rotate(device, positions, s.attention);
  }

  /// From the attention's result s.attention.o to s.out.
  template <class T, Device D, class W>
  static void after_attention(const D& device, const W& w, const Step<T>& s, const Rows<const T, hidden>& hidden_in) {
    require_rows("Eagle3Draft: hidden_in", hidden_in, s.middle.extent(0));
    copy(device, hidden_in, s.middle);
    Attention::output(device, w.self_attn, s.fused, s.attention, s.middle, Into::accumulate);
    Norm::forward(device, w.post_attention_layernorm, eps, s.middle, s.normed);
    copy(device, s.middle, s.state);
    MLP::forward(device, w.mlp, s.normed, s.state, s.mlp, Into::accumulate);
    if constexpr (Config::norm_output) Norm::forward(device, w.norm, eps, s.state, s.out);
  }

  /// Runs all steps. Step k's ids are x.ids shifted left by k within each sequence, 0 past the end, and its positions
  /// are k further than those of step 0.
  template <class T, Device D, class Visible, class W>
  static void forward(const D& device, const W& w, const Inputs<T, Visible>& x, const Activations<T>& acts) {
    check_rows(x.ids.extent(0), x, acts);
    project_hidden_states(device, w, x.aux, acts);
    SeenKeys<T, Visible> keys{x.span(), {}, x.visible};
    for (index_t k = 0; k < acts.count; ++k) {
      const Step<T>& s = acts.step(k);
      shift_ids_left(device, x.ids, x.length, k, s.ids);
      keys.steps.add(s.keys());
      step_forward<T>(device, w, s, acts.hidden_in(k), keys, x.positions.shifted(k));
    }
  }

  // ---- backward -----------------------------------------------------------------------------------------------

  // Each throws Error as forward does.

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows, index_t steps) {
    return plan_bytes([&](ArenaPlan& a) {
      Scratch<T>::allocate(a, rows, steps);
      a.borrow(Norm::template scratch_bytes<T>(rows));
      a.borrow(MLP::template scratch_bytes<T>(rows));
      a.borrow(Attention::template scratch_bytes<T>(rows));
      a.borrow(ttt_attention_scratch<Heads, T>(rows, steps));
      a.borrow(Aux::template scratch_bytes<T>(rows));
    });
  }

  /// d_outs[k] [R, H] = d loss / d out of step k, as the head left it; overwritten on the way (it also gathers what the
  /// next step sends back). Parameter gradients accumulate. d_aux [R, A].
  template <class T, Device D, class Visible>
  static void backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const Inputs<std::type_identity_t<T>, Visible>& x, const Activations<T>& acts,
                       std::span<const Rows<accumulate_t<T>, hidden>> d_outs,
                       const Destination<accumulate_t<T>>& d_aux) {
    using S = accumulate_t<T>;
    check_rows(acts.fc.extent(0), x, acts);
    check_gradients<T>(acts, d_outs, d_aux);
    Scope scope(on.scratch);
    const auto g = Scratch<T>::allocate(on.scratch, acts.fc.extent(0), acts.count);
    SeenKeys<T, Visible> keys{x.span(), {}, x.visible};
    TttGradients<S> of_attention{g.attention.d_q.matrix(), {}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(acts.count); ++k) {
      keys.steps.add(acts.steps[k].keys());
      of_attention.d_steps.add({g.d_kv[k].matrix(), g.d_k_rope[k].matrix()});
    }
    for (index_t k = acts.count - 1; k >= 0; --k) {
      const auto n = static_cast<std::size_t>(k);
      after_attention_backward(on, w, d_w, acts.step(k), d_outs[n], g);
      keys.steps.count = of_attention.d_steps.count = k + 1;
      of_attention.into_steps = k == acts.count - 1 ? Into::overwrite : Into::accumulate;
      attention_backward(on, acts.step(k), keys, of_attention, x.positions.shifted(k), g);
      Attention::project_backward(on, w.self_attn, d_w.self_attn, acts.step(k).fused, acts.step(k).attention,
                                  g.attention.with_keys({g.d_kv[n].matrix(), g.d_k_rope[n].matrix()}), g.d_fused);
      inputs_backward(on, w, d_w, acts, k, g);
      if (k > 0) add(on.device, g.d_middle, d_outs[n - 1]);
    }
    Aux::template backward<T>(on, w, d_w, x.aux, acts.aux_normed, g.d_middle, d_aux);
  }

 private:
  template <class T, class Visible>
  static void check_rows(index_t rows, const Inputs<T, Visible>& x, const Activations<T>& acts) {
    if (x.length < 1 || rows % x.length != 0) {
      throw Error("Eagle3Draft: length", std::to_string(x.length), "a divisor of " + std::to_string(rows));
    }
    require_rows("Eagle3Draft: aux", x.aux, rows);
    require_rows("Eagle3Draft: activations", acts.fc, rows);
  }

  template <class T>
  static void check_gradients(const Activations<T>& acts, std::span<const Rows<accumulate_t<T>, hidden>> d_outs,
                              const Destination<accumulate_t<T>>& d_aux) {
    require_count("Eagle3Draft: d_outs", static_cast<index_t>(d_outs.size()), acts.count, " steps");
    for (const auto& d_out : d_outs) require_rows("Eagle3Draft: d_outs", d_out, acts.fc.extent(0));
    d_aux.check("Eagle3Draft: d_aux", acts.fc.extent(0), aux_width);
  }

  /// d_out of a step -> g.d_middle (complete but for hidden_norm's share) and g.attention.d_o, d_gate.
  template <class T, Device D, AnyView DOut>
  static void after_attention_backward(const Workspace<D>& on, const Weights<const T>& w,
                                       const Weights<accumulate_t<T>>& d_w, const Step<T>& s, const DOut& d_out,
                                       const Scratch<T>& g) {
    if constexpr (Config::norm_output) {
      Norm::backward(on, w.norm, d_w.norm, eps, s.state, d_out, g.d_state);
    } else {
      copy(on.device, d_out, g.d_state);
    }
    MLP::backward(on, w.mlp, d_w.mlp, s.normed, s.mlp, g.d_state, g.d_normed);
    copy(on.device, g.d_state, g.d_middle);
    Norm::backward(on, w.post_attention_layernorm, d_w.post_attention_layernorm, eps, s.middle, g.d_normed,
                   {g.d_middle, Into::accumulate});
    Attention::output_backward(on, w.self_attn, d_w.self_attn, s.attention, g.d_middle, g.attention);
  }

  /// g.attention.d_o -> d, the last step's rope slices turned back.
  template <class T, Device D, class Visible>
  static void attention_backward(const Workspace<D>& on, const Step<T>& s, const SeenKeys<T, Visible>& keys,
                                 const TttGradients<accumulate_t<T>>& d, const RotaryPositions& positions,
                                 const Scratch<T>& g) {
    ttt_attention_backward(on.device, attention_problem<T>(s, keys), s.attended(), g.attention.d_o, d, on.scratch);
    const Matrix<accumulate_t<T>>& d_k_rope = d.d_steps[d.d_steps.count - 1].k_rope;
    Attention::rotate_back(on.device, positions, g.attention.d_q, d_k_rope);
  }

  /// g.d_fused -> the embedding, both input norms, and g.d_middle += the hidden state's share.
  template <class T, Device D>
  static void inputs_backward(const Workspace<D>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                              const Activations<T>& acts, index_t k, const Scratch<T>& g) {
    const auto& s = acts.step(k);
    Norm::backward(on, w.input_layernorm, d_w.input_layernorm, eps, s.embeds, g.d_fused.template columns<0, hidden>(),
                   g.d_embeds);
    if constexpr (Config::train_embeddings) {
      embedding_backward<accumulate_t<T>>(on.device, s.ids, Config::pad_token_id, g.d_embeds, d_w.embed_tokens);
    }
    Norm::backward(on, w.hidden_norm, d_w.hidden_norm, eps, acts.hidden_in(k),
                   g.d_fused.template columns<hidden, hidden>(), {g.d_middle, Into::accumulate});
  }
};

}  // namespace K3SPEC_NAMESPACE
