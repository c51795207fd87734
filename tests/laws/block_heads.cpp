// The laws of DSpark's heads. A sequence of the laws is a block.
#include <doctest/doctest.h>

#include <tests/laws/check_far.hpp>
#include <tests/laws/head_laws.hpp>
#include <k3spec/layers/prepacked.hpp>

using namespace k3spec;
using namespace k3spec::laws;

namespace {

/// Drafting's steps, on packed weights, against the training form.
template <class Config, class T>
void steps_are_the_training_form(Shape shape) {
  using Law = MarkovLaw<Config>;
  using Head = MarkovHead<Config>;
  Trial<Law, T> whole(shape), stepped(shape);
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
  check<MarkovLaw<Vanilla>>({{1, 1}, {3, 5}, {0, 1}});
  check<MarkovLaw<Gated>>({{1, 1}, {3, 5}, {0, 1}});
  check<MarkovLaw<Rnn>>({{1, 1}, {1, 2}, {3, 5}, {0, 1}});
}

TEST_CASE("laws: wider Markov heads") {
  check<MarkovLaw<SmallHeads<MarkovHeadType::gated, 33, 1>>>({{3, 4}});
  check<MarkovLaw<SmallHeads<MarkovHeadType::rnn, 19, 17>>>({{5, 4}});
}

TEST_CASE("laws: confidence heads") {
  check<ConfidenceLaw<Vanilla>>({{1, 1}, {3, 5}, {0, 1}});
  check<ConfidenceLaw<SmallHeads<MarkovHeadType::gated, 33, 17>>>({{2, 9}});
}

TEST_CASE("far: the heads") {
  check_far<MarkovLaw<Vanilla>, float>({3, 5});
  check_far<MarkovLaw<Gated>, bfloat16>({3, 5});
  check_far<MarkovLaw<Rnn>, double>({3, 5});
  check_far<ConfidenceLaw<Vanilla>, bfloat16>({3, 5});
}

TEST_CASE("a confidence head without Markov features does not read them") {
  using Config = WithoutMarkov<Vanilla>;
  using Law = ConfidenceLaw<Config>;
  static_assert(ConfidenceHead<Config>::features == 7);
  Trial<Law, double> trial({2, 3}), other({2, 3});
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
