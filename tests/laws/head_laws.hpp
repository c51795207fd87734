#pragma once
// DSpark's heads, as laws see them, on any device. A sequence of the laws is a block.
#include <tests/laws/laws.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/markov_head.hpp>

namespace k3spec::laws {

template <MarkovHeadType Type, index_t Hidden, index_t Rank>
struct SmallHeads : configs::KimiK3TinyDSpark {
  static constexpr index_t vocab_size = 13, hidden_size = Hidden, markov_rank = Rank;
  static constexpr MarkovHeadType markov_head_type = Type;
};
template <class Config>
struct WithoutMarkov : Config {
  static constexpr bool confidence_head_with_markov = false;
};

/// hidden rows -> logits 0 + W₂ m
template <class Config>
struct MarkovLaw : Defaults {
  using Layer = MarkovHead<Config>;
  static constexpr bool products = true;
  static constexpr std::array inputs{Input{Layer::hidden, Gradient::accumulated}};
  static constexpr index_t output = Layer::vocabulary, vocabulary = Layer::vocabulary;

  template <class T>
  struct Saved : Layer::template Saved<T> {
    Rows<accumulate_t<T>, Layer::rank> d_latent, d_previous;
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      Saved s{Layer::template Saved<T>::allocate(a, shape.rows()), {}, {}};
      take_rows(a, shape.rows(), s.d_latent), take_rows(a, shape.rows(), s.d_previous);
      return s;
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows(), shape.length);
  }
  template <class T>
  static void forward(const Call<MarkovLaw, T>& c) {
    evaluate(c.device, expr::as_expression(0.0), c.y);
    Layer::template forward<T>(c.device, c.w, c.ids, c.x[0], c.shape.length, c.saved);
    Layer::add_logits(c.device, c.w, c.saved.latent, c.y);
  }
  template <class T>
  static void backward(const Call<MarkovLaw, T>& c, const Back<MarkovLaw, T>& b) {
    evaluate(c.device, expr::as_expression(0.0), c.saved.d_previous);
    Layer::template add_logits_backward<T>(c.device, c.w, b.d_w, c.saved.latent, b.d_y, c.saved.d_latent);
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, {c.ids, c.shape.length}, c.saved,
                                {c.saved.d_latent, c.saved.d_previous, {b.d_x[0], Into::accumulate}});
  }
};

/// Input 0: hidden rows; input 1: W₁[prev].
template <class Config>
struct ConfidenceLaw : Defaults {
  using Layer = ConfidenceHead<Config>;
  static constexpr bool products = true;
  static constexpr std::array inputs{Input{Layer::hidden, Gradient::accumulated},
                                     Input{Config::markov_rank, Gradient::accumulated}};
  static constexpr index_t output = 1;
  template <class T>
  struct Saved : Layer::template Saved<T> {
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      return {Layer::template Saved<T>::allocate(a, shape.rows())};
    }
  };
  template <class T>
  static void forward(const Call<ConfidenceLaw, T>& c) {
    Layer::template forward<T>(c.device, c.w, c.x[0], c.x[1], c.y, c.saved);
  }
  template <class T>
  static void backward(const Call<ConfidenceLaw, T>& c, const Back<ConfidenceLaw, T>& b) {
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, c.x[0], c.saved, b.d_y,
                                {{b.d_x[0], Into::accumulate}, {b.d_x[1], Into::accumulate}});
  }
};

using Vanilla = SmallHeads<MarkovHeadType::vanilla, 7, 3>;
using Gated = SmallHeads<MarkovHeadType::gated, 7, 3>;
using Rnn = SmallHeads<MarkovHeadType::rnn, 7, 3>;

}  // namespace k3spec::laws
