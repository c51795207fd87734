#pragma once
/// \file
/// DSpark's confidence head: w · [h (‖ W₁[prev])] + b, a logit of the probability that a slot's token is accepted.
/// defines: ConfidenceHead

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// R rows, H hidden, rank that of the Markov head.
template <ForConfidence Given>
struct ConfidenceHead {
  using Config = complete_confidence_t<Given>;
  static constexpr bool with_markov = Config::confidence_head_with_markov;
  static_assert(!with_markov || Config::markov_rank > 0,
                "ConfidenceHead: confidence_head_with_markov needs a Markov head (markov_rank above 0)");
  static constexpr index_t hidden = Config::hidden_size, rank = with_markov ? Config::markov_rank : 0;
  static constexpr index_t features = hidden + rank;
  using Projection = BiasedLinear<features, 1>;

  /// The head's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Projection::template Weights<T> proj;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Projection::visit(w.proj, at / "proj", v);
  }

  /// What backward needs of forward: [h ‖ W₁[prev]]. Nothing where h is all that is read.
  template <class T>
  struct Saved {
    Rows<T, features> joined;

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      Saved s{};
      if constexpr (with_markov) take_rows(a, rows, s.joined);
      return s;
    }
  };

  // Each throws Error on other shapes, and on `saved` of other rows than it was allocated for.

  /// hidden_states [R, H], previous [R, rank] (MarkovHead::Saved::previous; not read without Markov features) ->
  /// logits [R, 1]
  template <class T, Device D, class W, AnyView H, AnyView P, AnyView Y>
  static void forward(const D& device, const W& w, const H& hidden_states, const P& previous, const Y& logits,
                      const Saved<T>& saved) {
    using Views = Operands<T, hidden, H>;
    static_assert(Views::wide && has_columns<Y, 1> && (!with_markov || has_columns<P, rank>),
                  "ConfidenceHead: hidden_states, previous or logits has other columns than the config says");
    static_assert(Views::same && adds_up_as<Y, T>,
                  "ConfidenceHead: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit && has_columns<Y, 1> && adds_up_as<Y, T>) {
      const index_t rows = hidden_states.extent(0);
      require_shape("ConfidenceHead: hidden_states", hidden_states, rows, hidden);
      require_shape("ConfidenceHead: logits", logits, rows, 1);
      if constexpr (with_markov) {
        require_shape("ConfidenceHead: previous", previous, rows, rank);
        require_rows("ConfidenceHead: saved", saved.joined, rows);
        copy(device, hidden_states, saved.joined.template columns<0, hidden>());
        copy(device, previous, saved.joined.template columns<hidden, rank>());
        Projection::forward(device, w.proj, saved.joined, logits);
      } else {
        Projection::forward(device, w.proj, hidden_states, logits);
      }
    }
  }

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t) {
    return 0;
  }

  /// Where the gradients of the inputs go: d_hidden [R, H] and, with Markov features, d_previous [R, rank].
  template <class S>
  struct InputGradients {
    Destination<S> d_hidden, d_previous;
  };

  /// d_logits [R, 1] -> added to parameter gradients; d as it is asked for.
  template <class T, Device D, Allocator A, AnyView H, AnyView DY>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const H& hidden_states, const Saved<T>& saved, const DY& d_logits,
                       const InputGradients<accumulate_t<T>>& d) {
    using Views = Operands<T, hidden, H>;
    static_assert(Views::wide && has_columns<DY, 1>, "ConfidenceHead: a view has other columns than the config says");
    static_assert(Views::same && adds_up_as<DY, T>,
                  "ConfidenceHead: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit && has_columns<DY, 1> && adds_up_as<DY, T>) {
      const index_t rows = hidden_states.extent(0);
      require_shape("ConfidenceHead: hidden_states", hidden_states, rows, hidden);
      require_shape("ConfidenceHead: d_logits", d_logits, rows, 1);
      check(d, saved, rows);
      const auto row = w.proj.weight;
      gemm<Op::plain, Op::plain>(on.device, d_logits, row.template columns<0, hidden>(), d.d_hidden.to,
                                 d.d_hidden.into);
      if constexpr (with_markov) {
        const auto of_previous = row.template columns<hidden, rank>();
        gemm<Op::plain, Op::plain>(on.device, d_logits, of_previous, d.d_previous.to, d.d_previous.into);
        Projection::backward_weight(on, d_w.proj, saved.joined, d_logits);
      } else {
        Projection::backward_weight(on, d_w.proj, hidden_states, d_logits);
      }
    }
  }

 private:
  template <class S, class T>
  static void check(const InputGradients<S>& d, const Saved<T>& saved, index_t rows) {
    d.d_hidden.check("ConfidenceHead: d_hidden", rows, hidden);
    if constexpr (with_markov) {
      d.d_previous.check("ConfidenceHead: d_previous", rows, rank);
      require_rows("ConfidenceHead: saved", saved.joined, rows);
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
