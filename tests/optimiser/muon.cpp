// Muon against its formulas written out over plain matrices of double.
#include <k3spec/optimiser/muon.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tests/optimiser/odd_model.hpp>

using namespace k3spec;

namespace {

/// Wide, tall and square matrices, a single row and a single column; tables of tokens, a vector and what is frozen are
/// not Muon's.
struct Shapes {
  template <class T>
  struct Weights {
    View<T, 7, 19> wide;
    View<T, 5> vector;
    View<T, 23, 6> tall;
    View<T, 9, 4> frozen;
    View<T, 11, 11> square;
    View<T, 1, 13> row;
    View<T, 13, 1> column;
    View<T, 8, 5> embed_tokens;
    View<T, 6, 5> markov_w1;
    View<T, 3, 2, 2> conv;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "wide", w.wide, Init::normal);
    v(at / "vector", w.vector, Init::ones);
    v(at / "tall", w.tall, Init::normal);
    v(at / "frozen", w.frozen, Frozen{Init::ones});
    v(at / "square", w.square, Init::normal);
    v(at / "row", w.row, Init::normal);
    v(at / "column", w.column, Init::normal);
    v(at / "embed_tokens" / "weight", w.embed_tokens, Init::normal);
    v(at / "markov_w1" / "weight", w.markov_w1, Init::normal);
    v(at / "conv", w.conv, Init::normal);
  }
};

using Numbers = std::vector<double>;
using Named = std::map<std::string, Numbers>;

bool is_muons(const std::string& name) {
  return name == "wide" || name == "tall" || name == "square" || name == "row" || name == "column";
}

template <class Weights>
Named named(const Weights& weights) {
  Named all;
  Shapes::visit(weights, Path{}, [&](const Path& at, const auto& view, auto) {
    Numbers& to = all[at.str()];
    for (index_t i = 0; view.data() != nullptr && i < view.size(); ++i) {
      to.push_back(static_cast<double>(view.data()[i]));
    }
  });
  return all;
}

/// What the tests know of the formulas, of one matrix [rows, columns].
struct PlainMuon {
  std::size_t rows, columns;
  double lr, clip, momentum, decay, scale;

  Numbers product(const Numbers& a, const Numbers& b, std::size_t m, std::size_t k, std::size_t n) const {
    Numbers c(m * n);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
      }
    }
    return c;
  }
  Numbers turned(const Numbers& a) const {
    Numbers t(a.size());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
    }
    return t;
  }
  /// Always by X Xᵀ of the matrix as it is, whichever side is longer.
  Numbers orthogonal(Numbers x) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    for (double& v : x) v /= std::sqrt(squares) + 1e-7;
    for (int step = 0; step < 5; ++step) {
      const Numbers gram = product(x, turned(x), rows, columns, rows);
      const Numbers once = product(gram, x, rows, rows, columns), twice = product(gram, once, rows, rows, columns);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] - 4.775 * once[i] + 2.0315 * twice[i];
    }
    return x;
  }
  void step(Numbers& w, Numbers& m, const Numbers& g) const {
    Numbers u(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = momentum * m[i] + (1 - momentum) * clip * g[i];
      u[i] = momentum * m[i] + (1 - momentum) * clip * g[i];
    }
    const Numbers x = orthogonal(u);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = (1 - lr * decay) * w[i] - lr * scale * x[i];
  }
};

PlainMuon plain(const std::string& name, double scale) {
  const std::map<std::string, std::pair<std::size_t, std::size_t>> shapes{
      {"wide", {7, 19}}, {"tall", {23, 6}}, {"square", {11, 11}}, {"row", {1, 13}}, {"column", {13, 1}}};
  const auto [rows, columns] = shapes.at(name);
  return {rows, columns, 0.02, 1, 0.9, 0.25, scale};
}

double apart(const Numbers& a, const Numbers& b) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i])), size = std::max(size, std::abs(b[i]));
  return most / size;
}

constexpr AdamWOptions rest_options{.weight_decay = 0.25, .max_grad_norm = 2.0};

}  // namespace

TEST_CASE_TEMPLATE("Muon's matrices follow the formulas, and all others AdamW's, bit for bit", T, double, float) {
  for (const MuonScale scale : {MuonScale::match_rms_adamw, MuonScale::original}) {
    Parameters<Shapes, T> parameters, others;
    parameters.initialize(3, 0.1);
    others.initialize(3, 0.1);
    Gradients<Shapes, T> gradients, same;
    AdamW<Shapes, T> rest(rest_options, parameters), adamw(rest_options, others);
    Muon<Shapes, T> muon(Cpu{}, {.momentum = 0.9, .scale = scale});
    Named wanted = named(parameters.weights()), moments;
    for (std::uint64_t step = 0; step < 3; ++step) {
      test::draw_gradients(gradients, step);
      test::draw_gradients(same, step);
      const Named g = named(gradients.weights());
      const auto report = muon.step(Cpu{2}, 0.02, rest, parameters, gradients);
      CHECK(report.grad_norm == adamw.step(Cpu{}, 0.02, others, same).grad_norm);
      for (auto& [name, w] : wanted) {
        if (!is_muons(name)) continue;
        moments[name].resize(w.size());
        PlainMuon formula = plain(name, 0);
        const auto a = static_cast<double>(formula.rows), b = static_cast<double>(formula.columns);
        formula.clip = 2.0 / (report.grad_norm + 1e-6);
        formula.scale = scale == MuonScale::original ? (a > b ? std::sqrt(a / b) : 1) : 0.2 * std::sqrt(std::max(a, b));
        formula.step(w, moments[name], g.at(name));
      }
    }
    const double tolerance = std::is_same_v<T, double> ? 1e-12 : 2e-5;
    const Named found = named(parameters.weights()), adamws = named(others.weights());
    const Named first = named(rest.first_moments()), second = named(rest.second_moments());
    for (const auto& tensor : found) {
      const std::string& name = tensor.first;
      const Numbers& w = tensor.second;
      CAPTURE(name);
      if (is_muons(name)) {
        CHECK(apart(w, wanted[name]) < tolerance);
        CHECK(apart(first.at(name), moments[name]) < tolerance);
        for (const double v : second.at(name)) CHECK(v == 0);
      } else {
        CHECK(w == adamws.at(name));
        CHECK(first.at(name) == named(adamw.first_moments()).at(name));
        CHECK(second.at(name) == named(adamw.second_moments()).at(name));
      }
    }
    CHECK(rest.steps() == 3);
  }
}

TEST_CASE("one step moves a matrix by about the same along each of its singular vectors") {
  Parameters<Shapes, double> parameters;
  parameters.initialize(1);
  const Named before = named(parameters.weights());
  Gradients<Shapes, double> gradients;
  test::draw_gradients(gradients, 9);
  AdamW<Shapes, double> rest({}, parameters);
  Muon<Shapes, double> muon(Cpu{}, {.scale = MuonScale::original});
  muon.step(Cpu{}, 1, rest, parameters, gradients);
  const Named after = named(parameters.weights());
  const PlainMuon wide = plain("wide", 1);
  Numbers moved;
  for (std::size_t i = 0; i < 7 * 19; ++i) moved.push_back(before.at("wide")[i] - after.at("wide")[i]);
  // X Xᵀ has the squares of X's singular values: its trace is their sum, that of its square the sum of their squares.
  const Numbers gram = wide.product(moved, wide.turned(moved), 7, 19, 7);
  double trace = 0, squares = 0;
  for (std::size_t i = 0; i < 7; ++i) trace += gram[i * 7 + i];
  for (const double v : gram) squares += v * v;
  CHECK(trace / 7 > 0.5);
  CHECK(trace / 7 < 1.44);
  CHECK(squares / 7 < 1.5 * (trace / 7) * (trace / 7));
  // A row has one singular value.
  double row = 0;
  for (std::size_t i = 0; i < 13; ++i) row += std::pow(before.at("row")[i] - after.at("row")[i], 2);
  CHECK(std::sqrt(row) > 0.67);
  CHECK(std::sqrt(row) < 1.21);
}

namespace {

struct NoMatrix {
  template <class T>
  struct Weights {
    View<T, 5> vector;
    View<T, 8, 5> embed_tokens;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "vector", w.vector, Init::ones);
    v(at / "embed_tokens" / "weight", w.embed_tokens, Init::normal);
  }
};

}  // namespace

TEST_CASE("a model without a matrix of Muon's is AdamW's") {
  Parameters<NoMatrix, float> parameters, others;
  parameters.initialize(2), others.initialize(2);
  Gradients<NoMatrix, float> gradients;
  test::draw_gradients(gradients, 1);
  AdamW<NoMatrix, float> rest({}, parameters), adamw({}, others);
  Muon<NoMatrix, float> muon(Cpu{}, {});
  CHECK(Muon<NoMatrix, float>::bytes() == 0);
  muon.step(Cpu{}, 0.1, rest, parameters, gradients);
  adamw.step(Cpu{}, 0.1, others, gradients);
  const auto a = parameters.trainable(), b = others.trainable();
  CHECK(std::equal(a.data(), a.data() + a.size(), b.data()));
}

TEST_CASE("bfloat16 parameters' masters go float's way") {
  Parameters<Shapes, bfloat16> small;
  small.initialize(4);
  Parameters<Shapes, float> wide;
  for (index_t i = 0; i < wide.trainable().size(); ++i) wide.trainable()(i) = small.trainable()(i);
  Gradients<Shapes, bfloat16> of_small;
  Gradients<Shapes, float> of_wide;
  AdamW<Shapes, bfloat16> a({.weight_decay = 0.1}, small);
  AdamW<Shapes, float> b({.weight_decay = 0.1}, wide);
  Muon<Shapes, bfloat16> of_a(Cpu{}, {});
  Muon<Shapes, float> of_b(Cpu{}, {});
  for (std::uint64_t step = 0; step < 3; ++step) {
    test::draw_gradients(of_small, step), test::draw_gradients(of_wide, step);
    of_a.step(Cpu{}, 1e-3, a, small, of_small), of_b.step(Cpu{}, 1e-3, b, wide, of_wide);
  }
  const Named masters = named(a.masters()), floats = named(wide.weights());
  for (const char* name : {"wide", "tall", "square", "row", "column", "vector", "embed_tokens.weight", "conv"}) {
    CAPTURE(name);
    CHECK(masters.at(name) == floats.at(name));
  }
}

TEST_CASE("Muon's bits do not depend on the thread count, and bfloat16 parameters are their masters rounded") {
  const auto train = [](auto type, int threads) {
    using T = decltype(type);
    Parameters<Shapes, T> parameters;
    parameters.initialize(5);
    Gradients<Shapes, T> gradients;
    AdamW<Shapes, T> rest({.weight_decay = 0.1}, parameters);
    Muon<Shapes, T> muon(Cpu{threads}, {});
    for (std::uint64_t step = 0; step < 3; ++step) {
      test::draw_gradients(gradients, step);
      muon.step(Cpu{threads}, 1e-3, rest, parameters, gradients);
    }
    if constexpr (std::is_same_v<T, bfloat16>) {
      const Named masters = named(rest.masters()), rounded = named(parameters.weights());
      for (const auto& [name, w] : masters) {
        for (std::size_t i = 0; i < w.size(); ++i) {
          REQUIRE(rounded.at(name)[i] == static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(w[i])))));
        }
      }
    }
    return named(parameters.weights());
  };
  CHECK(train(1.0F, 1) == train(1.0F, 2));
  CHECK(train(1.0F, 1) == train(1.0F, 5));
  CHECK(train(bfloat16(), 1) == train(bfloat16(), 2));
}

TEST_CASE("a gradient of zero moves nothing but by decay; one that is not finite moves nothing at all") {
  Parameters<Shapes, double> parameters;
  parameters.initialize(6);
  const Named before = named(parameters.weights());
  Gradients<Shapes, double> gradients;
  AdamW<Shapes, double> rest({.weight_decay = 0.5}, parameters);
  Muon<Shapes, double> muon(Cpu{}, {});
  gradients.weights().conv(0, 0, 1) = std::numeric_limits<double>::quiet_NaN();
  CHECK(muon.step(Cpu{}, 0.1, rest, parameters, gradients).skipped);
  CHECK(named(parameters.weights()) == before);
  CHECK(rest.skipped() == 1);
  gradients.weights().conv(0, 0, 1) = 0;
  CHECK_FALSE(muon.step(Cpu{}, 0.1, rest, parameters, gradients).skipped);
  const Named after = named(parameters.weights());
  for (const char* name : {"wide", "tall", "square"}) {
    for (std::size_t i = 0; i < after.at(name).size(); ++i) {
      REQUIRE(after.at(name)[i] == doctest::Approx(0.95 * before.at(name)[i]).epsilon(1e-14));
    }
  }
  CHECK(after.at("vector") == before.at("vector"));
  CHECK(after.at("frozen") == before.at("frozen"));
}

TEST_CASE("which matrices are Muon's goes by their names, and its numbers have ranges") {
  CHECK(is_for_muon("layers.0.mlp.gate_proj.weight"));
  CHECK(is_for_muon("fc.weight"));
  CHECK(is_for_muon("markov_head.gate_proj.weight"));
  for (const char* name : {"embed_tokens.weight", "lm_head.weight", "markov_head.markov_w1.weight",
                           "markov_head.markov_w2.weight", "confidence_head.proj.weight"}) {
    CHECK_FALSE(is_for_muon(name));
  }
  CHECK_THROWS_WITH_AS((Muon<Shapes, float>(Cpu{}, {.momentum = 1})), doctest::Contains("Muon: muon_momentum: found 1"),
                       Error);
  CHECK(Muon<Shapes, float>::bytes() == (23 * 6 + 3 * 11 * 11) * sizeof(float));
  CHECK(Muon<test::OddModel, double>::bytes() == (123 * 45 + 3 * 45 * 45) * sizeof(double));
}
