#pragma once
/// \file
/// Kimi delta attention as a layer:
/// ```text
/// q, k, v = silu(conv(W x)), q and k L2-normalised per head, q · D^-1/2;   g = log-decay(W_fb W_fa x);
/// β = σ(W_b x);   o = recurrence(q, k, v, e^g, β);   y = W_o( RMS_head(o) · w ⊙ σ(W_g x) )
/// ```
/// Convolutions, A_log, dt_bias and w stand in F32 in the published checkpoints and are kept so; all that is rounded to
/// the storage type is what the convolutions read and what W_o reads.
/// defines: KdaAttention

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include <k3spec/core/held.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/gated_activation.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/rms_norm.hpp>
#include <k3spec/ops/short_conv.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/prepacked_linear.hpp>

namespace K3SPEC_NAMESPACE {

/// Kimi delta attention as a layer of the target, forward only.
template <class Config>
struct KdaAttention {
  static constexpr index_t hidden = Config::hidden_size, heads = Config::kda_num_heads, dim = Config::kda_head_dim;
  static constexpr index_t width = heads * dim, taps = Config::kda_conv_size;
  static constexpr bool full_rank_gate = Config::kda_use_full_rank_gate;
  static_assert(heads > 0 && dim > 0, "KDA: kda_num_heads and kda_head_dim must be positive");
  static_assert(taps >= 1, "KDA: kda_conv_size must be positive");

  using Project = Linear<hidden, width>;
  using Down = Linear<hidden, dim>;
  using Up = Linear<dim, width>;
  using Gate = std::conditional_t<full_rank_gate, Project, Absent>;
  using GateDown = std::conditional_t<full_rank_gate, Absent, Down>;
  using GateUp = std::conditional_t<full_rank_gate, Absent, Up>;

  /// A depthwise convolution's weight as the checkpoint has it.
  template <class T>
  struct Conv {
    View<full_precision_t<T>, width, 1, taps> weight;
  };

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Project::template Weights<T> q_proj, k_proj, v_proj;
    Conv<T> q_conv1d, k_conv1d, v_conv1d;
    typename Down::template Weights<T> f_a_proj;
    typename Up::template Weights<T> f_b_proj;
    typename Linear<hidden, heads>::template Weights<T> b_proj;
    typename Gate::template Weights<T> g_proj;
    typename GateDown::template Weights<T> g_a_proj;
    typename GateUp::template Weights<T> g_b_proj;
    typename Linear<width, hidden>::template Weights<T> o_proj;
    View<full_precision_t<T>, heads> a_log;
    View<full_precision_t<T>, width> dt_bias;
    View<full_precision_t<T>, dim> o_norm;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Project::visit(w.q_proj, at / "q_proj", v);
    Project::visit(w.k_proj, at / "k_proj", v);
    Project::visit(w.v_proj, at / "v_proj", v);
    v(at / "q_conv1d" / "weight", w.q_conv1d.weight, Init::normal);
    v(at / "k_conv1d" / "weight", w.k_conv1d.weight, Init::normal);
    v(at / "v_conv1d" / "weight", w.v_conv1d.weight, Init::normal);
    Down::visit(w.f_a_proj, at / "f_a_proj", v);
    Up::visit(w.f_b_proj, at / "f_b_proj", v);
    Linear<hidden, heads>::visit(w.b_proj, at / "b_proj", v);
    Gate::visit(w.g_proj, at / "g_proj", v);
    GateDown::visit(w.g_a_proj, at / "g_a_proj", v);
    GateUp::visit(w.g_b_proj, at / "g_b_proj", v);
    Linear<width, hidden>::visit(w.o_proj, at / "o_proj", v);
    v(at / "A_log", w.a_log, Init::zeros);
    v(at / "dt_bias", w.dt_bias, Init::zeros);
    v(at / "o_norm" / "weight", w.o_norm, Init::ones);
  }

  // Columns of the one product that all projections of x make.
  static constexpr index_t q_at = 0, k_at = width, v_at = 2 * width, f_at = 3 * width, b_at = f_at + dim;
  static constexpr index_t gate_at = b_at + heads, gate_width = full_rank_gate ? width : dim;
  static constexpr index_t projected = gate_at + gate_width;

  /// The weights, prepacked. Keeps views of the small ones.
  template <class T>
  struct Prepacked {
    using S = accumulate_t<T>;
    using D = place_t<T>;
    using Host = value_t<T>;
    using Sum = scalar_t<T>;
    PrepackedLinear<T> in, decay_up, gate_up, out;
    buffer_t<D, Sum> conv;  ///< [3, taps, width]
    buffer_t<D, Sum> rate;  ///< [width]: exp(A_log) of the channel's head
    Held<D, Sum, dyn> dt_bias, o_norm;

    template <class Tensor>
    Prepacked(const D& device, const Weights<Tensor>& w)
        : in(make_in(device, w)),
          decay_up{device, {w.f_b_proj.weight.matrix()}},
          out{device, {w.o_proj.weight.matrix()}},
          conv(moved_to(device, turned(w))),
          rate(moved_to(device, rates(w))),
          dt_bias(device, w.dt_bias),
          o_norm(device, w.o_norm) {
      if constexpr (!full_rank_gate) gate_up = PrepackedLinear<T>{device, {w.g_b_proj.weight.matrix()}};
    }

    Matrix<const S> taps_of(index_t which) const {
      return Matrix<const S>(conv.data() + which * taps * width, taps, width);
    }

    /// What they take.
    std::size_t bytes() const {
      return static_cast<std::size_t>(in.bytes() + decay_up.bytes() + gate_up.bytes() + out.bytes()) +
             sizeof(Sum) * static_cast<std::size_t>(conv.size() + rate.size()) + dt_bias.bytes() + o_norm.bytes();
    }

   private:
    template <class W>
    static PrepackedLinear<T> make_in(const D& device, const W& w) {
      const auto gate = [&] {
        if constexpr (full_rank_gate) return w.g_proj.weight.matrix();
        if constexpr (!full_rank_gate) return w.g_a_proj.weight.matrix();
      };
      return {device,
              {w.q_proj.weight.matrix(), w.k_proj.weight.matrix(), w.v_proj.weight.matrix(), w.f_a_proj.weight.matrix(),
               w.b_proj.weight.matrix(), gate()}};
    }
    /// The convolutions of q, k and v with their axes turned.
    template <class W>
    static Buffer<Sum> turned(const W& w) {
      Buffer<Sum> all(3 * taps * width);
      Sum* to = all.data();
      for (const auto* from : {&w.q_conv1d, &w.k_conv1d, &w.v_conv1d}) {
        const auto weight = on_host(from->weight);
        for (index_t j = 0; j < taps; ++j) {
          for (index_t c = 0; c < width; ++c) *to++ = weight.view()(c, 0, j);
        }
      }
      return all;
    }
    template <class W>
    static Buffer<Sum> rates(const W& w) {
      Buffer<Sum> all(width);
      const auto a_log = on_host(w.a_log);
      for (index_t c = 0; c < width; ++c) all[c] = std::exp(a_log.view()(c / dim));
      return all;
    }
  };

  /// Working memory of a forward.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Matrix<S> in;                       ///< [rows, projected]
    Matrix<S> q, k, v, decay, o, gate;  ///< [rows, width]
    Matrix<S> beta;                     ///< [rows, heads]
    Matrix<T> gated;                    ///< [rows, width]
    Matrix<T> window;                   ///< [taps - 1 + most tokens, 3 · width] of one sequence

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows, index_t most_tokens) {
      Scratch s;
      detail::take_matrix(a, s.in, rows, projected);
      for (Matrix<S>* m : {&s.q, &s.k, &s.v, &s.decay, &s.o}) detail::take_matrix(a, *m, rows, width);
      if constexpr (!full_rank_gate) detail::take_matrix(a, s.gate, rows, width);
      detail::take_matrix(a, s.beta, rows, heads);
      detail::take_matrix(a, s.gated, rows, width);
      detail::take_matrix(a, s.window, taps - 1 + most_tokens, 3 * width);
      return s;
    }
  };

  /// x, y [rows, hidden]
  /// \throws Error on other shapes, and on sequences of rows that x has not
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Prepacked<T>& w, std::span<const KdaSequence<T>> sequences, const X& x,
                      const Y& y, Into into, ArenaSlice& arena) {
    require_shape("KdaAttention: x", x, x.extent(0), hidden);
    require_shape("KdaAttention: y", y, x.extent(0), hidden);
    Scope scope(arena);
    index_t most = 0;
    for (const auto& b : sequences) most = std::max(most, b.tokens);
    const auto s = Scratch<T>::allocate(arena, x.extent(0), most);
    w.in.forward(device, x, s.in);
    const auto count = static_cast<index_t>(sequences.size());
    short_conv(device, ShortConv<T>{s.in.columns(0, 3 * width),
                                    {w.taps_of(0), w.taps_of(1), w.taps_of(2)},
                                    {s.q, s.k, s.v},
                                    s.window,
                                    sequences.data(),
                                    count});
    prepare<T>(device, w, s);
    kda_recurrence(device, KdaRecurrence<T, dim>{s.q, s.k, s.v, s.decay, s.beta, s.o, sequences.data(), count});
    gate<T>(device, w, s);
    w.out.forward(device, s.gated, y, into);
  }

 private:
  template <class S>
  static Matrix<S> per_head(const Matrix<S>& x) {
    return Matrix<S>(x.data(), x.extent(0) * heads, dim);
  }

  /// Everything that needs no state.
  template <class T, Device D>
  static void prepare(const D& device, const Prepacked<T>& w, const Scratch<T>& s) {
    using S = accumulate_t<T>;
    const Vector<const S> rate(w.rate.data(), width);
    evaluate(device, kda_unit_formula(1 / std::sqrt(static_cast<double>(dim))), per_head(s.q), per_head(s.q));
    evaluate(device, kda_unit_formula(1), per_head(s.k), per_head(s.k));
    w.decay_up.forward(device, s.in.columns(f_at, dim), s.decay);
    evaluate(device, exp(log_decay()), s.decay, s.decay, rate, w.dt_bias.view());
    evaluate(device, sigmoid(expr::arg<0>), s.beta, s.in.columns(b_at, heads));
  }

  static constexpr auto log_decay() {
    if constexpr (Config::kda_gate_lower_bound.has_value()) {
      return kda_log_decay_formula(*Config::kda_gate_lower_bound);
    } else {
      return kda_log_decay_formula();
    }
  }

  template <class T, Device D>
  static void gate(const D& device, const Prepacked<T>& w, const Scratch<T>& s) {
    rms_norm_forward<accumulate_t<T>>(device, w.o_norm.view(), Config::rms_norm_eps, per_head(s.o), per_head(s.o));
    if constexpr (full_rank_gate) {
      evaluate(device, output_gate_formula(), s.gated, s.o, s.in.columns(gate_at, width));
    } else {
      w.gate_up.forward(device, s.in.columns(gate_at, dim), s.gate);
      evaluate(device, output_gate_formula(), s.gated, s.o, s.gate);
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
