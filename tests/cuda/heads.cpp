// DSpark's heads on Cuda: the laws of every layer, and Cpu's numbers as near as products with other sums come.
#include <doctest/doctest.h>

#include <cmath>

#include <tests/cuda/device.hpp>
#include <tests/laws/check_laws.hpp>
#include <tests/laws/head_laws.hpp>

using namespace k3spec;
using namespace k3spec::laws;

namespace {

/// Of the largest number of a tensor.
template <class T>
constexpr double within = std::is_same_v<T, double>  ? 1e-10
                          : std::is_same_v<T, float> ? 2e-5
                                                     : 0x1p-6;

/// The output and all gradients.
template <class Law, class T>
std::string near_cpu(Shape shape) {
  Trial<Law, T> wanted(shape);
  Trial<Law, T, Cuda> found(shape);
  wanted.forward(), wanted.backward(), found.forward(), found.backward();
  const auto a = wanted.results();
  const auto b = found.results();
  for (std::size_t i = 0; i < a.size(); ++i) {
    double most = 0, apart = 0;
    for (std::size_t j = 0; j < a[i].values.size(); ++j) {
      most = std::max(most, std::abs(a[i].values[j]));
      apart = std::max(apart, std::abs(a[i].values[j] - b[i].values[j]));
      if (std::isnan(b[i].values[j])) return a[i].name + ": NaN";
    }
    if (i == 0 && shape.rows() > 0 && most == 0) return "nothing but 0";
    if (!(apart <= within<T> * most)) return fmt::format("{}: off by {:.3g} of {:.3g}", a[i].name, apart, most);
  }
  return {};
}
template <class Law, class T>
void check_near(std::initializer_list<Shape> shapes) {
  for (const Shape shape : shapes) hold<Law, T>("near Cpu's", shape, near_cpu<Law, T>(shape));
}

using Odd = SmallHeads<MarkovHeadType::rnn, 37, 17>;

}  // namespace

TEST_CASE("laws on Cuda: a recurrent Markov head, and the confidence head beside it") {
  check<MarkovLaw<Rnn>, Cuda>({{1, 1}, {3, 5}, {0, 1}});
  check<ConfidenceLaw<Rnn>, Cuda>({{1, 1}, {3, 5}, {0, 1}});
}

TEST_CASE("Markov heads on Cuda are near Cpu's") {
  check_near<MarkovLaw<Vanilla>, float>({{1, 1}, {3, 5}, {40, 7}});
  check_near<MarkovLaw<Gated>, bfloat16>({{1, 1}, {3, 5}, {40, 7}});
  check_near<MarkovLaw<Rnn>, double>({{1, 1}, {1, 2}, {40, 7}});
  check_near<MarkovLaw<Odd>, float>({{3, 5}});
}

TEST_CASE("confidence heads on Cuda are near Cpu's, with and without Markov features") {
  check_near<ConfidenceLaw<Odd>, float>({{3, 5}, {0, 1}});
  check_near<ConfidenceLaw<Rnn>, bfloat16>({{40, 7}});
  check_near<ConfidenceLaw<WithoutMarkov<Vanilla>>, double>({{3, 5}});
}
