#pragma once
// The layers' reference cases on any device: outputs and every gradient.
#include <tests/support/case_configs.hpp>
#include <tests/support/mirror.hpp>
#include <tests/support/reference_case.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/optimiser/adamw.hpp>
#include <k3spec/optimiser/schedule.hpp>

namespace k3spec::parity {

template <class T>
constexpr double tolerance = test::parity_tolerance<T>;

/// A layer's parameters and gradients on a device, filled from a case.
template <class Layer, class T, class D>
struct Model {
  Parameters<Layer, T> on_host;
  Parameters<Layer, T, D> parameters{test::device<D>()};
  Gradients<Layer, T> host_gradients;
  Gradients<Layer, T, D> gradients{test::device<D>()};

  explicit Model(test::ReferenceCase& ref) {
    auto w = on_host.mutable_weights();
    ref.fill<Layer>(w);
    put();
  }
  void put() { upload<T>(test::device<D>(), on_host.all(), parameters.all()); }
  void compare_gradients(test::ReferenceCase& ref) {
    using S = accumulate_t<T>;
    download<S>(test::device<D>(), gradients.flat(), host_gradients.flat());
    auto d_w = host_gradients.weights();
    ref.compare_gradients<Layer>(d_w, tolerance<T>);
  }
};

template <class T, class D>
void compare(test::ReferenceCase& ref, const std::string& name, test::Mirror<T, D>& found, double within) {
  const auto values = found.get();
  ref.compare(name, values.data(), static_cast<index_t>(values.size()), within);
}

template <class T, class D>
void rms_norm(const std::string& folder) {
  using S = accumulate_t<T>;
  auto ref = test::ReferenceCase::load(folder + "rms_norm");
  using Norm = KimiRMSNorm<24>;
  Model<Norm, T, D> model(ref);
  test::Mirror<T, D> x(ref.values<T>("input.x")), y(ref.values<T>("input.x"));
  test::Mirror<S, D> d_y(ref.values<S>("input.cotangent")), d_x(std::vector<S>(y.get().size(), S(NAN)));
  const double eps = ref.config()["eps"];
  const auto& device = test::device<D>(2);
  arena_t<D> scratch(device, Norm::scratch_bytes<element_t<D, T>>(x.matrix(24).extent(0)));
  Norm::forward(device, model.parameters.weights(), eps, x.matrix(24), y.matrix(24));
  Norm::backward(Workspace(device, scratch), model.parameters.weights(), model.gradients.weights(), eps, x.matrix(24),
                 d_y.matrix(24), d_x.matrix(24));
  compare(ref, "output.y", y, tolerance<T>);
  compare(ref, "grad.input.x", d_x, tolerance<T>);
  model.compare_gradients(ref);
  ref.finish();
}

template <class T, class D, class Formula>
void activation(const std::string& name, const Formula& formula) {
  using S = accumulate_t<T>;
  auto ref = test::ReferenceCase::load(name);
  test::Mirror<T, D> gate(ref.values<T>("input.gate")), up(ref.values<T>("input.up")), y(ref.values<T>("input.up"));
  test::Mirror<S, D> d_y(ref.values<S>("input.cotangent")), d_gate(ref.values<S>("input.up")),
      d_up(ref.values<S>("input.up"));
  const auto& device = test::device<D>(2);
  arena_t<D> scratch(device, 0);
  evaluate(device, formula, y.matrix(40), gate.matrix(40), up.matrix(40));
  differentiate(device, formula, d_y.matrix(40), gradients(overwrite(d_gate.matrix(40)), overwrite(d_up.matrix(40))),
                scratch, gate.matrix(40), up.matrix(40));
  compare(ref, "output.y", y, tolerance<T>);
  compare(ref, "grad.input.gate", d_gate, tolerance<T>);
  compare(ref, "grad.input.up", d_up, tolerance<T>);
  ref.finish();
}

template <class MLP, class T, class D>
void mlp(const std::string& name, index_t hidden) {
  using S = accumulate_t<T>;
  using Saved = typename MLP::template Saved<element_t<D, T>>;
  auto ref = test::ReferenceCase::load(name);
  Model<MLP, T, D> model(ref);
  test::Mirror<T, D> x(ref.values<T>("input.x")), y(ref.values<T>("input.x"));
  test::Mirror<S, D> d_y(ref.values<S>("input.cotangent")), d_x(ref.values<S>("input.x"));
  const index_t rows = x.matrix(hidden).extent(0);
  const auto& device = test::device<D>(2);
  arena_t<D> arena(device, plan_bytes([&](ArenaPlan& a) {
                     Saved::allocate(a, rows);
                     a.borrow(MLP::template scratch_bytes<element_t<D, T>>(rows));
                   }));
  const auto saved = Saved::allocate(arena, rows);
  MLP::forward(device, model.parameters.weights(), x.matrix(hidden), y.matrix(hidden), saved);
  MLP::backward(Workspace(device, arena), model.parameters.weights(), model.gradients.weights(), x.matrix(hidden),
                saved, d_y.matrix(hidden), d_x.matrix(hidden));
  compare(ref, "output.y", y, tolerance<T>);
  compare(ref, "grad.input.x", d_x, tolerance<T>);
  model.compare_gradients(ref);
  ref.finish();
}

/// The optimizer's case: a matrix, which decays, and a vector, which does not.
struct Small {
  template <class T>
  struct Weights {
    View<T, 6, 5> matrix;
    View<T, 7> vector;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "matrix", w.matrix, Init::normal);
    v(at / "vector", w.vector, Init::zeros);
  }
};

template <class T, class D>
void adamw() {
  using S = accumulate_t<T>;
  auto ref = test::ReferenceCase::load("cases/adamw");
  const auto config = ref.config();
  AdamWOptions options;
  options.beta1 = config["betas"][0];
  options.beta2 = config["betas"][1];
  options.eps = config["eps"];
  options.weight_decay = config["weight_decay"]["matrix"];
  options.max_grad_norm = config["max_grad_norm"];
  const WarmupCosine schedule{config["lr"], config["warmup_steps"], config["total_steps"], config["min_lr_ratio"]};
  const auto& device = test::device<D>();
  Model<Small, T, D> model(ref);
  AdamW<Small, T, D> optimizer(device, options, model.parameters);
  std::vector<double> norms, rates;
  for (index_t step = 0; step < schedule.total_steps; ++step) {
    const std::string at = std::to_string(step) + ".";
    auto d = model.host_gradients.weights();
    const auto matrix = ref.values<S>("input.grad." + at + "matrix"),
               vector = ref.values<S>("input.grad." + at + "vector");
    std::copy(matrix.begin(), matrix.end(), d.matrix.data());
    std::copy(vector.begin(), vector.end(), d.vector.data());
    upload<S>(device, model.host_gradients.flat(), model.gradients.flat());
    rates.push_back(schedule(step));
    norms.push_back(optimizer.step(device, schedule(step), model.parameters, model.gradients).grad_norm);
    download<T>(device, model.parameters.all(), model.on_host.all());
    const auto w = model.on_host.weights();
    ref.compare("output." + at + "matrix", w.matrix, tolerance<T>);
    ref.compare("output." + at + "vector", w.vector, tolerance<T>);
  }
  ref.compare("output.grad_norm", norms, tolerance<S>);
  ref.compare("output.lr", rates, 1e-15);
  CHECK(optimizer.steps() == schedule.total_steps);
  CHECK_NOTHROW(ref.finish());
}

/// Every case of this file for one type and device.
template <class T, class D>
void all() {
  for (const std::string folder : {"cases/", "cases_odd/"}) {
    rms_norm<T, D>(folder);
    activation<T, D>(folder + "situ", situ_formula(4.0, 25.0));
    activation<T, D>(folder + "situ_unbounded", situ_formula(4.0));
  }
  mlp<SiTUMLP<32, 48, test::EvenCases>, T, D>("cases/situ_mlp", 32);
  mlp<SiTUMLP<27, 35, test::OddCases>, T, D>("cases_odd/situ_mlp", 27);
  mlp<SwiGLUMLP<32, 48>, T, D>("cases/swiglu_mlp", 32);
  mlp<SwiGLUMLP<27, 35>, T, D>("cases_odd/swiglu_mlp", 27);
  adamw<T, D>();
}

}  // namespace k3spec::parity
