// Compares dumps of tests/reference/dumped_modules.py with layers made of this library's, as a user would, and with
// mistakes as users make them: dumped_modules plain|own|bfloat16 FILE [eps|transpose|mask|forgotten]. 0: all is ok.
#include <cstdio>
#include <string>

#include <k3spec/testing.hpp>

using namespace k3spec;

namespace {

/// y = W₂ tanh(W₁ x + b₁) + b₂
struct Plain {
  using Up = BiasedLinear<6, 10>;
  using Down = BiasedLinear<10, 3>;
  template <class T>
  struct Weights {
    typename Up::template Weights<T> fc1;
    typename Down::template Weights<T> fc2;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Up::visit(w.fc1, at / "fc1", v);
    Down::visit(w.fc2, at / "fc2", v);
  }
};

testing::Report check_plain(const std::string& file, const testing::Tolerance& within) {
  const testing::Dump dump(file, {"", {{"param.0", "param.fc1"}, {"param.2", "param.fc2"}}});
  Parameters<Plain, double> parameters;
  Gradients<Plain, double> gradients_of;
  dump.load(parameters);
  const auto w = parameters.weights();
  const auto d_w = gradients_of.weights();
  const auto x = dump.read<double>("input.0"), d_y = dump.read<double>("d_output.0");
  auto y = testing::like(d_y), d_x = testing::like(x);
  Arena arena(1 << 20);
  Rows<double, 10> u, h, d_h, d_u;
  for (auto* view : {&u, &h, &d_h, &d_u}) take_rows(arena, x.rows(), *view);
  const Workspace on(Cpu{}, arena);
  const auto formula = tanh(expr::arg<0>);
  Plain::Up::forward(on.device, w.fc1, x.as_rows<6>(), u);
  evaluate(on.device, formula, h, u);
  Plain::Down::forward(on.device, w.fc2, h, y.as_rows<3>());
  Plain::Down::backward_weight(on, d_w.fc2, h, d_y.as_rows<3>());
  Plain::Down::backward_input(on.device, w.fc2, d_y.as_rows<3>(), d_h);
  differentiate(on.device, formula, d_h, gradients(overwrite(d_u)), arena, u);
  Plain::Up::backward_weight(on, d_w.fc1, x.as_rows<6>(), d_u);
  Plain::Up::backward_input(on.device, w.fc1, d_u, d_x.as_rows<6>());
  testing::Report report;
  report.compare(dump, "output.0", y, within);
  report.compare(dump, "grad.input.0", d_x, within);
  report.compare_all<Plain>(dump, "grad.param.", d_w, within);
  report.require_all(dump);
  return report;
}

/// A function that the library does not have, with its derivative.
struct Softsign {
  template <class P>
  static P value(P x) {
    return x / (P(1) + abs(x));
  }
  template <class P>
  static P derivative(P x, P) {
    const P n = P(1) + abs(x);
    return P(1) / (n * n);
  }
};

struct Own {
  using Norm = KimiRMSNorm<8>;
  using Proj = Linear<8, 8>;
  template <class T>
  struct Weights {
    typename Norm::template Weights<T> norm;
    typename Proj::template Weights<T> proj;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Norm::visit(w.norm, at / "norm", v);
    Proj::visit(w.proj, at / "proj", v);
  }
  /// mask u softsign(u)
  static constexpr auto formula() {
    constexpr auto u = expr::arg<0>;
    return expr::row<1> * (u * expr::Unary<Softsign, std::remove_cv_t<decltype(u)>>{u});
  }
};

testing::Report check_own(const std::string& file, const std::string& mistake) {
  const testing::Dump dump(file);
  Parameters<Own, double> parameters;
  Gradients<Own, double> gradients_of;
  dump.load(parameters);
  if (mistake == "transpose") {
    auto square = parameters.mutable_weights().proj.weight;
    for (index_t i = 0; i < 8; ++i) {
      for (index_t j = 0; j < i; ++j) std::swap(square(i, j), square(j, i));
    }
  }
  const double eps = mistake == "eps" ? 1e-6 : 1e-5;
  const auto w = parameters.weights();
  const auto d_w = gradients_of.weights();
  const auto x = dump.read<double>("input.0"), d_y = dump.read<double>("d_output.0");
  auto mask = dump.numbers("input.mask"), y = testing::like(d_y), d_x = testing::like(x);
  if (mistake == "mask") {
    std::rotate(mask.values.begin(), mask.values.end() - 1, mask.values.end());
  }
  const Vector<const double> seen(mask.values.data(), x.rows());
  Arena arena(1 << 20);
  Rows<double, 8> normed, u, d_u, d_normed;
  for (auto* view : {&normed, &u, &d_u, &d_normed}) take_rows(arena, x.rows(), *view);
  const Workspace on(Cpu{}, arena);
  Own::Norm::forward(on.device, w.norm, eps, x.as_rows<8>(), normed);
  Own::Proj::forward(on.device, w.proj, normed, u);
  evaluate(on.device, Own::formula(), y.as_rows<8>(), u, seen);
  differentiate(on.device, Own::formula(), d_y.as_rows<8>(), gradients(overwrite(d_u), no_gradient), arena, u, seen);
  Own::Proj::backward(on.device, w.proj, d_w.proj, normed, d_u, d_normed);
  Own::Norm::backward(on, w.norm, d_w.norm, eps, x.as_rows<8>(), d_normed, d_x.as_rows<8>());

  testing::Report report;
  report.compare_all<Own>(dump, "param.", w);
  report.compare(dump, "input.mask", mask);
  report.compare(dump, "sub.norm.output.0", normed);
  report.compare(dump, "sub.proj.output.0", u);
  report.compare(dump, "sub.proj.grad.output.0", d_u);
  report.compare(dump, "output.0", y);
  report.compare_all<Own>(dump, "grad.param.", d_w);
  if (mistake != "forgotten") report.compare(dump, "grad.input.0", d_x);
  report.require_all(dump);
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string which = argv[1], mistake = argc > 3 ? argv[3] : "";
  try {
    // bfloat16 keeps 8 bits, and rounds each of the few tensors on the way.
    const testing::Tolerance within{which == "bfloat16" ? 8 * 0x1p-8 : 1e-10, 0};
    const auto report = which == "own" ? check_own(argv[2], mistake) : check_plain(argv[2], within);
    std::fputs(report.text().c_str(), stdout);
    return report.ok() ? 0 : 1;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
