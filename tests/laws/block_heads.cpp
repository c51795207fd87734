// The laws of DSpark's heads. A sequence of the laws is a block.
#include <doctest/doctest.h>

#include <tests/laws/check_far.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/markov_head.hpp>
#include <k3spec/layers/prepacked.hpp>

using namespace k3spec;
using laws::Gradient;
using laws::Input;
using laws::Shape;

namespace {

template <MarkovHeadType Type, index_t Hidden, index_t Rank>
struct Small : configs::KimiK3TinyDSpark {
  static constexpr index_t vocab_size = 13, hidden_size = Hidden, markov_rank = Rank;
  static constexpr MarkovHeadType markov_head_type = Type;
};
template <class Config>
struct WithoutMarkov : Config {
  static constexpr bool confidence_head_with_markov = false;
};

/// hidden rows -> logits 0 + W₂ m
template <class Config>
struct MarkovLaw : laws::Defaults {
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
  static void forward(const laws::Call<MarkovLaw, T>& c) {
    evaluate(c.device, expr::as_expression(0.0), c.y);
    Layer::template forward<T>(c.device, c.w, c.ids, c.x[0], c.shape.length, c.saved);
    Layer::add_logits(c.device, c.w, c.saved.latent, c.y);
  }
  template <class T>
  static void backward(const laws::Call<MarkovLaw, T>& c, const laws::Back<MarkovLaw, T>& b) {
    evaluate(c.device, expr::as_expression(0.0), c.saved.d_previous);
    Layer::template add_logits_backward<T>(c.device, c.w, b.d_w, c.saved.latent, b.d_y, c.saved.d_latent);
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, {c.ids, c.shape.length}, c.saved,
                                {c.saved.d_latent, c.saved.d_previous, {b.d_x[0], Into::accumulate}});
  }
};

/// Input 0: hidden rows; input 1: W₁[prev].
template <class Config>
struct ConfidenceLaw : laws::Defaults {
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
  static void forward(const laws::Call<ConfidenceLaw, T>& c) {
    Layer::template forward<T>(c.device, c.w, c.x[0], c.x[1], c.y, c.saved);
  }
  template <class T>
  static void backward(const laws::Call<ConfidenceLaw, T>& c, const laws::Back<ConfidenceLaw, T>& b) {
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, c.x[0], c.saved, b.d_y,
                                {{b.d_x[0], Into::accumulate}, {b.d_x[1], Into::accumulate}});
  }
};

using Vanilla = Small<MarkovHeadType::vanilla, 7, 3>;
using Gated = Small<MarkovHeadType::gated, 7, 3>;
using Rnn = Small<MarkovHeadType::rnn, 7, 3>;

/// Drafting's steps, on packed weights, against the training form.
template <class Config, class T>
void steps_are_the_training_form(Shape shape) {
  using Law = MarkovLaw<Config>;
  using Head = MarkovHead<Config>;
  laws::Trial<Law, T> whole(shape), stepped(shape);
  whole.forward();
  stepped.poison();
  auto c = stepped.call(1);
  c.saved = Law::template Saved<T>::allocate(stepped.arena, shape);
  const Matrix<T> y(stepped.y.data(), shape.rows(), Head::vocabulary);
  std::fill(stepped.y.begin(), stepped.y.end(), T(0.0f));
  const auto packed = prepack_weights<Head, T>(c.w);
  Head::template begin<T>(Cpu{}, c.x[0], shape.length, c.saved);
  for (index_t k = 0; k < shape.length; ++k) {
    std::vector<index_t> previous;
    for (index_t s = 0; s < shape.sequences; ++s) previous.push_back(c.ids(s * shape.length + k));
    const auto latent = Head::template step<T>(Cpu{}, packed, Vector<const index_t>(previous.data(), shape.sequences),
                                               shape.length, k, c.saved);
    for (index_t s = 0; s < shape.sequences; ++s) {
      Head::add_logits(Cpu{}, packed, latent.rows(s, 1), y.rows(s * shape.length + k, 1));
    }
  }
  CHECK(std::memcmp(stepped.y.data(), whole.y.data(), whole.y.size() * sizeof(T)) == 0);
}

}  // namespace

TEST_CASE("laws: Markov heads") {
  laws::check<MarkovLaw<Vanilla>>({{1, 1}, {3, 5}, {0, 1}});
  laws::check<MarkovLaw<Gated>>({{1, 1}, {3, 5}, {0, 1}});
  laws::check<MarkovLaw<Rnn>>({{1, 1}, {1, 2}, {3, 5}, {0, 1}});
}

TEST_CASE("laws: wider Markov heads") {
  laws::check<MarkovLaw<Small<MarkovHeadType::gated, 33, 1>>>({{3, 4}});
  laws::check<MarkovLaw<Small<MarkovHeadType::rnn, 19, 17>>>({{5, 4}});
}

TEST_CASE("laws: confidence heads") {
  laws::check<ConfidenceLaw<Vanilla>>({{1, 1}, {3, 5}, {0, 1}});
  laws::check<ConfidenceLaw<Small<MarkovHeadType::gated, 33, 17>>>({{2, 9}});
}

TEST_CASE("far: the heads") {
  laws::check_far<MarkovLaw<Vanilla>, float>({3, 5});
  laws::check_far<MarkovLaw<Gated>, bfloat16>({3, 5});
  laws::check_far<MarkovLaw<Rnn>, double>({3, 5});
  laws::check_far<ConfidenceLaw<Vanilla>, bfloat16>({3, 5});
}

TEST_CASE("a confidence head without Markov features does not read them") {
  using Config = WithoutMarkov<Vanilla>;
  using Law = ConfidenceLaw<Config>;
  static_assert(ConfidenceHead<Config>::features == 7);
  laws::Trial<Law, double> trial({2, 3}), other({2, 3});
  std::fill(other.x[1].begin(), other.x[1].end(), std::nan(""));
  trial.forward(), trial.backward(), other.forward(), other.backward();
  CHECK(trial.y == other.y);
  CHECK(trial.d_x[0] == other.d_x[0]);
  CHECK(trial.d_x[1] == std::vector<double>(trial.d_x[1].size(), 0.0));
}

TEST_CASE_TEMPLATE("a Markov head's steps, one by one, are the training form to the bit", T, double, bfloat16) {
  for (const Shape shape : {Shape{1, 1}, Shape{1, 4}, Shape{3, 5}}) {
    steps_are_the_training_form<Vanilla, T>(shape);
    steps_are_the_training_form<Gated, T>(shape);
    steps_are_the_training_form<Rnn, T>(shape);
  }
}
