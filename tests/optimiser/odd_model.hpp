#pragma once
/// \file
/// A model for tests of optimizers: more than one block of the norm, sizes that fill no row, a frozen tensor in
/// between.
/// defines: test::OddModel, test::draw_gradients

#include <k3spec/core/parameters.hpp>

namespace k3spec::test {

struct OddModel {
  template <class T>
  struct Weights {
    View<T, 123, 45> matrix;
    View<T, 31> frozen;
    View<T, 77> vector;
    View<T, 9, 1, 4> conv;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "matrix", w.matrix, Init::normal);
    v(at / "frozen", w.frozen, Frozen{Init::ones});
    v(at / "vector", w.vector, Init::ones);
    v(at / "conv", w.conv, Init::normal);
  }
};

/// A gradient that depends on nothing but the step.
template <class Model, class T>
void draw_gradients(Gradients<Model, T>& gradients, std::uint64_t step) {
  auto d = gradients.weights();
  std::uint64_t stream = 0;
  Model::visit(d, Path{}, [&](const Path&, auto& view, auto) {
    const Philox random(step, stream++);
    for (index_t i = 0; view.data() != nullptr && i < view.size(); ++i) {
      view.data()[i] = static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i)));
    }
  });
}

}  // namespace k3spec::test
