// An activation of one's own, with its derivative: Mish, x · tanh(softplus(x)). In formulas it stands like any
// function, on every device; in a gated MLP it takes SiTU's place. The MLP's gradients are held against differences.
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/testing.hpp>

using namespace k3spec;

struct Mish {
  template <class P>
  K3SPEC_HOST_DEVICE static P value(P x) {
    return x * functor::Tanh::value(functor::Softplus::value(x));
  }
  /// dy/dx, with y = value(x), which is not needed here.
  template <class P>
  K3SPEC_HOST_DEVICE static P derivative(P x, P) {
    const P t = functor::Tanh::value(functor::Softplus::value(x));
    return t + x * (P(1) - t * t) * functor::Sigmoid::value(x);
  }
};
template <expr::Expression E>
constexpr auto mish(E e) {
  return expr::Unary<Mish, E>{e};
}

/// What a GatedMLP asks of its activation: a formula of the gate and of the other one.
struct MishGLU {
  static constexpr auto formula() { return mish(expr::arg<0>) * expr::arg<1>; }
};
using MLP = GatedMLP<6, 10, MishGLU>;

int main() {
  const index_t rows = 5;
  std::vector<double> numbers(4 * rows * 6);
  const auto view = [&](index_t i) { return Rows<double, 6>(numbers.data() + i * rows * 6, rows); };
  const auto x = view(0), d_x = view(1), y = view(2), d_y = view(3);
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = Philox(7).normal(static_cast<std::uint64_t>(i));
  Parameters<MLP, double> w;
  Gradients<MLP, double> d_w;
  w.initialize(/*seed=*/1, /*deviation=*/0.5);
  Arena arena(1 << 20);
  const auto saved = MLP::Saved<double>::allocate(arena, rows);

  testing::GradientCheck check;
  check.input("x", x, d_x).parameters(w, d_w).output(y, d_y);
  const testing::Report report =
      check.run([&] { MLP::forward(Cpu{}, w.weights(), x, y, saved); },
                [&] { MLP::backward(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), x, saved, d_y, d_x); });
  fmt::print("{}", report.text());
  return report.ok() ? 0 : 1;
}
