// Views whose columns only show at run time: the refusal names the layer and the argument.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>

using namespace k3spec;

namespace {

/// Rows of `columns` each, 2 of them.
struct Two {
  explicit Two(index_t columns_) : columns(columns_), data(static_cast<std::size_t>(2 * columns_)) {}
  Matrix<float> view() { return Matrix<float>(data.data(), 2, columns); }

  index_t columns;
  std::vector<float> data;
};

}  // namespace

TEST_CASE("a view of another width is refused by the layer's and the argument's name") {
  const Cpu cpu;
  Two right(96), wrong(64);
  Arena scratch(std::size_t{1} << 16);

  Parameters<KimiRMSNorm<96>, float> norm;
  Gradients<KimiRMSNorm<96>, float> d_norm;
  const auto normed = [&](Two& x, Two& y) { KimiRMSNorm<96>::forward(cpu, norm.weights(), 1e-5, x.view(), y.view()); };
  CHECK_NOTHROW(normed(right, right));
  CHECK_THROWS_WITH_AS(normed(wrong, right), "KimiRMSNorm: x: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(normed(right, wrong), "KimiRMSNorm: y: found 2 x 64, wanted 2 x 96", Error);
  const auto back = [&](Two& x, Two& d_y, const Matrix<float>& d_x, Into into = Into::overwrite) {
    KimiRMSNorm<96>::backward(Workspace(cpu, scratch), norm.weights(), d_norm.weights(), 1e-5, x.view(), d_y.view(),
                              {d_x, into});
  };
  Two d_x(96);
  CHECK_NOTHROW(back(right, right, d_x.view()));
  CHECK_NOTHROW(back(right, right, Matrix<float>(), Into::nothing));
  CHECK_THROWS_WITH_AS(back(right, right, Matrix<float>()), "rms_norm: d_x: found 0 x 0, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(back(wrong, right, d_x.view()), "KimiRMSNorm: x: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(back(right, wrong, d_x.view()), "rms_norm: d_y: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(back(right, right, wrong.view()), "rms_norm: d_x: found 2 x 64, wanted 2 x 96", Error);

  using Wide = Linear<96, 8>;
  Parameters<Wide, float> linear;
  Gradients<Wide, float> d_linear;
  Two eight(8);
  CHECK_NOTHROW(Wide::forward(cpu, linear.weights(), right.view(), eight.view()));
  CHECK_THROWS_WITH_AS(Wide::forward(cpu, linear.weights(), wrong.view(), eight.view()),
                       "Linear: x: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(Wide::forward(cpu, linear.weights(), right.view(), wrong.view()),
                       "Linear: y: found 2 x 64, wanted 2 x 8", Error);
  CHECK_THROWS_WITH_AS(Wide::backward_input(cpu, linear.weights(), wrong.view(), right.view()),
                       "Linear: d_y: found 2 x 64, wanted 2 x 8", Error);
  CHECK_THROWS_WITH_AS(Wide::backward_weight(cpu, d_linear.weights(), wrong.view(), eight.view()),
                       "Linear: x: found 2 x 64, wanted 2 x 96", Error);

  using Biased = BiasedLinear<96, 8>;
  Parameters<Biased, float> biased;
  CHECK_THROWS_WITH_AS(Biased::forward(cpu, biased.weights(), wrong.view(), eight.view()),
                       "BiasedLinear: x: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(Biased::forward(cpu, biased.weights(), right.view(), wrong.view()),
                       "BiasedLinear: y: found 2 x 64, wanted 2 x 8", Error);

  using MLP = SwiGLUMLP<96, 8>;
  Parameters<MLP, float> mlp;
  Arena memory(std::size_t{1} << 14);
  const auto saved = MLP::Saved<float>::allocate(memory, 2);
  CHECK_THROWS_WITH_AS(MLP::forward<float>(cpu, mlp.weights(), wrong.view(), right.view(), saved),
                       "GatedMLP: x: found 2 x 64, wanted 2 x 96", Error);
  CHECK_THROWS_WITH_AS(MLP::forward<float>(cpu, mlp.weights(), right.view(), wrong.view(), saved),
                       "GatedMLP: y: found 2 x 64, wanted 2 x 96", Error);
}
