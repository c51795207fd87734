// The layers' reference cases: outputs and every gradient, in double and float, in even and odd sizes.
#include <doctest/doctest.h>

#include <tests/support/case_configs.hpp>
#include <tests/support/reference_case.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>

using namespace k3spec;

namespace {

template <class T>
constexpr double tolerance = test::parity_tolerance<T>;

template <class T>
Matrix<T> rows_of(std::vector<T>& v, index_t columns) {
  return Matrix<T>(v.data(), static_cast<index_t>(v.size()) / columns, columns);
}

template <class T>
void rms_norm(const std::string& folder) {
  auto ref = test::ReferenceCase::load(folder + "rms_norm");
  using Norm = KimiRMSNorm<24>;
  Parameters<Norm, T> p;
  Gradients<Norm, T> g;
  auto w = p.mutable_weights();
  ref.fill<Norm>(w);
  auto x = ref.values<T>("input.x"), d_y = ref.values<T>("input.cotangent");
  std::vector<T> y(x.size()), d_x(x.size(), T(NAN));
  const double eps = ref.config()["eps"];
  Arena scratch(Norm::scratch_bytes<T>(10));
  Norm::forward(Cpu{2}, p.weights(), eps, rows_of(x, 24), rows_of(y, 24));
  Norm::backward(Cpu{2}, p.weights(), g.weights(), eps, rows_of(x, 24), rows_of(d_y, 24), rows_of(d_x, 24), scratch);
  ref.compare("output.y", y.data(), static_cast<index_t>(y.size()), tolerance<T>);
  ref.compare("grad.input.x", d_x.data(), static_cast<index_t>(d_x.size()), tolerance<T>);
  auto d_w = g.weights();
  ref.compare_gradients<Norm>(d_w, tolerance<T>);
  ref.finish();
}

template <class T, class Formula>
void activation(const std::string& name, const Formula& formula) {
  auto ref = test::ReferenceCase::load(name);
  auto gate = ref.values<T>("input.gate"), up = ref.values<T>("input.up"), d_y = ref.values<T>("input.cotangent");
  std::vector<T> y(gate.size()), d_gate(gate.size()), d_up(gate.size());
  Arena scratch;
  evaluate(Cpu{2}, formula, rows_of(y, 40), rows_of(gate, 40), rows_of(up, 40));
  differentiate(Cpu{2}, formula, rows_of(d_y, 40),
                gradients(overwrite(rows_of(d_gate, 40)), overwrite(rows_of(d_up, 40))), scratch, rows_of(gate, 40),
                rows_of(up, 40));
  const auto n = static_cast<index_t>(y.size());
  ref.compare("output.y", y.data(), n, tolerance<T>);
  ref.compare("grad.input.gate", d_gate.data(), n, tolerance<T>);
  ref.compare("grad.input.up", d_up.data(), n, tolerance<T>);
  ref.finish();
}

template <class Mlp, class T>
void mlp(const std::string& name, index_t hidden) {
  auto ref = test::ReferenceCase::load(name);
  Parameters<Mlp, T> p;
  Gradients<Mlp, T> g;
  auto w = p.mutable_weights();
  ref.fill<Mlp>(w);
  auto x = ref.values<T>("input.x"), d_y = ref.values<T>("input.cotangent");
  std::vector<T> y(x.size()), d_x(x.size());
  const auto rows = static_cast<index_t>(x.size()) / hidden;
  Arena arena(plan_bytes([&](ArenaPlan& a) {
    Mlp::template Saved<T>::allocate(a, rows);
    a.borrow(Mlp::template scratch_bytes<T>(rows));
  }));
  const auto saved = Mlp::template Saved<T>::allocate(arena, rows);
  Mlp::forward(Cpu{2}, p.weights(), rows_of(x, hidden), rows_of(y, hidden), saved);
  Mlp::backward(Cpu{2}, p.weights(), g.weights(), rows_of(x, hidden), saved, rows_of(d_y, hidden), rows_of(d_x, hidden),
                arena);
  ref.compare("output.y", y.data(), static_cast<index_t>(y.size()), tolerance<T>);
  ref.compare("grad.input.x", d_x.data(), static_cast<index_t>(d_x.size()), tolerance<T>);
  auto d_w = g.weights();
  ref.compare_gradients<Mlp>(d_w, tolerance<T>);
  ref.finish();
}

}  // namespace

TEST_CASE_TEMPLATE("reference: rms_norm", T, float, double) {
  rms_norm<T>("cases/");
  rms_norm<T>("cases_odd/");
}

TEST_CASE_TEMPLATE("reference: situ and situ_unbounded", T, float, double) {
  for (const std::string folder : {"cases/", "cases_odd/"}) {
    activation<T>(folder + "situ", situ_formula(4.0, 25.0));
    activation<T>(folder + "situ_unbounded", situ_formula(4.0));
  }
}

TEST_CASE_TEMPLATE("reference: situ_mlp and swiglu_mlp", T, float, double) {
  mlp<SiTUMLP<32, 48, test::EvenCases>, T>("cases/situ_mlp", 32);
  mlp<SiTUMLP<27, 35, test::OddCases>, T>("cases_odd/situ_mlp", 27);
  mlp<SwiGLUMLP<32, 48>, T>("cases/swiglu_mlp", 32);
  mlp<SwiGLUMLP<27, 35>, T>("cases_odd/swiglu_mlp", 27);
}
