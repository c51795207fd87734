#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/arena.hpp>

using namespace k3spec;

namespace {

std::vector<double> draws(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n);
  for (double& v : x) v = normal(generator);
  return x;
}

constexpr auto x0 = expr::arg<0>;
constexpr auto x1 = expr::arg<1>;
constexpr auto w = expr::column<1>;

// Formulas of a user: plain, with a weight and a reduction, with nested reductions, with one value per row.
constexpr auto gated = 4.0 * tanh(x0 / 4.0) * sigmoid(x0) * softplus(x1) - max(x0, x1) * 0.5 +
                       min(x0, x1) / sqrt(1.0 + square(x1)) - abs(x0);
constexpr auto normed = w * (x0 * rsqrt(row_mean(x0 * x0) + 1e-5));
constexpr auto shifted = x0 - detach(row_max(x0));
constexpr auto log_softmax = shifted - log(row_sum(exp(shifted)));
constexpr auto cross_entropy = -row_sum(x1 * log_softmax);

/// x, and how often it was computed.
struct Counted {
  static inline int times = 0;
  template <class P>
  static P value(P x) {
    ++times;
    return x;
  }
  template <class P>
  static P derivative(P, P) {
    return P(1);
  }
};

template <expr::Expression E>
constexpr expr::Unary<Counted, E> counted(E e) {
  return {e};
}

/// Calls of Counted while f runs.
template <class F>
int times(F&& f) {
  Counted::times = 0;
  f();
  return Counted::times;
}

/// Central differences of loss() in the elements of `operand`.
template <class F>
void check_gradient(std::vector<double>& operand, const std::vector<double>& gradient, F&& loss) {
  for (std::size_t i = 0; i < operand.size(); ++i) {
    const double kept = operand[i], h = 1e-5;
    operand[i] = kept + h;
    const double up = loss();
    operand[i] = kept - h;
    const double down = loss();
    operand[i] = kept;
    CHECK(std::abs(gradient[i] - (up - down) / (2 * h)) < 1e-8 * (1 + std::abs(gradient[i])));
  }
}

/// Operands, gradients and the weighted sum of results for one shape.
struct Shape {
  index_t rows, columns;
  std::size_t n = static_cast<std::size_t>(rows * columns);
  std::vector<double> a = draws(n, 1), b = draws(n, 2), c = draws(static_cast<std::size_t>(columns), 3),
                      d = draws(n, 4);
  std::vector<double> y = std::vector<double>(n), d_a = std::vector<double>(n, NAN), d_b = d_a;
  std::vector<double> d_c = std::vector<double>(c.size(), 0.25);

  Matrix<double> of(std::vector<double>& v) const { return Matrix<double>(v.data(), rows, columns); }
  double dot() const {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += y[i] * d[i];
    return sum;
  }
};

template <class F>
void for_shapes(F&& f) {
  for (const index_t rows : {1, 3}) {
    for (const index_t columns : {1, 3, 4, 7, 16, 67}) {
      Shape s{rows, columns};
      f(s);
    }
  }
}

}  // namespace

TEST_CASE("an elementwise expression's gradient is its finite difference, at sizes around a packet's") {
  Arena scratch(1 << 16);
  for_shapes([&](Shape& s) {
    differentiate(Cpu{2}, gated, s.of(s.d), gradients(overwrite(s.of(s.d_a)), overwrite(s.of(s.d_b))), scratch,
                  s.of(s.a), s.of(s.b));
    const auto loss = [&] { return evaluate(Cpu{2}, gated, s.of(s.y), s.of(s.a), s.of(s.b)), s.dot(); };
    check_gradient(s.a, s.d_a, loss);
    check_gradient(s.b, s.d_b, loss);
  });
}

TEST_CASE("a column weight's gradient accumulates; a reduction passes its gradient to the whole row") {
  Arena scratch(1 << 16);
  for_shapes([&](Shape& s) {
    const Vector<double> c(s.c.data(), s.columns), d_c(s.d_c.data(), s.columns);
    differentiate(Cpu{2}, normed, s.of(s.d), gradients(overwrite(s.of(s.d_a)), accumulate(d_c)), scratch, s.of(s.a), c);
    const auto loss = [&] { return evaluate(Cpu{2}, normed, s.of(s.y), s.of(s.a), c), s.dot(); };
    check_gradient(s.a, s.d_a, loss);
    for (double& v : s.d_c) v -= 0.25;
    check_gradient(s.c, s.d_c, loss);
  });
}

TEST_CASE("nested reductions differentiate") {
  Arena scratch(1 << 16);
  for_shapes([&](Shape& s) {
    differentiate(Cpu{2}, log_softmax, s.of(s.d), gradients(overwrite(s.of(s.d_a))), scratch, s.of(s.a));
    check_gradient(s.a, s.d_a, [&] { return evaluate(Cpu{2}, log_softmax, s.of(s.y), s.of(s.a)), s.dot(); });
  });
}

TEST_CASE("an expression with one value per row counts its adjoint once") {
  Arena scratch(1 << 16);
  for_shapes([&](Shape& s) {
    const Vector<double> y(s.y.data(), s.rows), d(s.d.data(), s.rows);
    differentiate_rows(Cpu{2}, cross_entropy, d, gradients(overwrite(s.of(s.d_a)), overwrite(s.of(s.d_b))), scratch,
                       s.of(s.a), s.of(s.b));
    const auto loss = [&] {
      evaluate_rows(Cpu{2}, cross_entropy, y, s.of(s.a), s.of(s.b));
      double sum = 0;
      for (index_t r = 0; r < s.rows; ++r) sum += y(r) * d(r);
      return sum;
    };
    check_gradient(s.a, s.d_a, loss);
    check_gradient(s.b, s.d_b, loss);
  });
}

TEST_CASE("an element's bits do not depend on its neighbours, its place in a packet or the thread count") {
  constexpr index_t rows = 19, columns = 1003;
  const auto source = draws(rows * columns, 7);
  std::vector<float> a(source.begin(), source.end()), whole(a.size()), alone(a.size());
  const Matrix<float> am(a.data(), rows, columns), wm(whole.data(), rows, columns), lm(alone.data(), rows, columns);
  evaluate(Cpu{2}, tanh(x0) * exp(x0), wm, am);
  for (index_t i = 0; i < rows * columns; ++i) {
    evaluate(Cpu{1}, tanh(x0) * exp(x0), Vector<float>(alone.data() + i, 1), Vector<float>(a.data() + i, 1));
  }
  CHECK(whole == alone);
  evaluate(Cpu{2}, log_softmax, wm, am);
  for (index_t r = 0; r < rows; ++r) evaluate(Cpu{1}, log_softmax, lm.rows(r, 1), am.rows(r, 1));
  CHECK(whole == alone);
}

TEST_CASE("a column's gradient does not depend on how many columns there are beside it") {
  constexpr index_t rows = 37, columns = 2051;
  Arena scratch(1 << 20);
  const auto a = draws(rows * columns, 3), d = draws(rows * columns, 4), c = draws(columns, 5);
  const Matrix<const double> am(a.data(), rows, columns), dm(d.data(), rows, columns);
  std::vector<double> whole(columns, 0.25), parts = whole;
  const auto run = [&](index_t begin, index_t n, std::vector<double>& to) {
    differentiate(Cpu{2}, w * tanh(x0), dm.columns(begin, n),
                  gradients(no_gradient, accumulate(Vector<double>(to.data() + begin, n))), scratch,
                  am.columns(begin, n), Vector<const double>(c.data() + begin, n));
  };
  run(0, columns, whole);
  for (index_t begin = 0; begin < columns; begin += 97) run(begin, std::min<index_t>(97, columns - begin), parts);
  CHECK(whole == parts);
}

TEST_CASE("gradients do not depend on the thread count") {
  constexpr index_t rows = 300, columns = 131;
  Arena scratch(1 << 20);
  Shape s{rows, columns};
  const Vector<double> c(s.c.data(), columns), d_c(s.d_c.data(), columns);
  const auto run = [&](int threads) {
    std::fill(s.d_c.begin(), s.d_c.end(), 0.5);
    differentiate(Cpu{threads}, normed, s.of(s.d), gradients(overwrite(s.of(s.d_a)), accumulate(d_c)), scratch,
                  s.of(s.a), c);
    return std::pair(s.d_a, s.d_c);
  };
  CHECK(run(1) == run(2));
}

TEST_CASE("bfloat16 results are rounded once, and where the formula says so") {
  const std::vector<bfloat16> x{bfloat16(1.0078125f)};
  std::vector<bfloat16> y(1);
  const auto once = x0 * 1.00390625;
  evaluate(Cpu{}, once, Vector<bfloat16>(y.data(), 1), Vector<const bfloat16>(x.data(), 1));
  const bfloat16 product(1.0078125f * 1.00390625f);
  CHECK(y[0].bits == product.bits);
  evaluate(Cpu{}, expr::rounded_to<bfloat16>(once) * 1.00390625, Vector<bfloat16>(y.data(), 1),
           Vector<const bfloat16>(x.data(), 1));
  CHECK(y[0].bits == bfloat16(static_cast<float>(product) * 1.00390625f).bits);
}

TEST_CASE("operands, outputs and gradients of another shape than they are read with are refused, with the shapes") {
  std::vector<double> x(32), y(32);
  const Matrix<double> m(x.data(), 4, 8), out(y.data(), 4, 8);
  const Vector<double> row(x.data(), 8), column(x.data(), 4);
  CHECK_THROWS_WITH_AS(evaluate(Cpu{}, x0 * 2.0, out, row), "expression: operand 0: found 1 x 8, wanted 4 x 8", Error);
  CHECK_THROWS_WITH_AS(evaluate(Cpu{}, x0 * w, out, m, column), "expression: operand 1: found 1 x 4, wanted 1 x 8",
                       Error);
  CHECK_THROWS_WITH_AS(evaluate(Cpu{}, x0 * expr::row<1>, out, m, row),
                       "expression: operand 1: found 1 x 8, wanted 1 x 4", Error);
  CHECK_THROWS_WITH_AS(evaluate(Cpu{}, formulas(x0, x0), outputs(out, row), m),
                       "expression: output 1: found 1 x 8, wanted 4 x 8", Error);
  Arena scratch;
  CHECK_THROWS_WITH_AS(differentiate(Cpu{}, x0 * 2.0, m, gradients(overwrite(row)), scratch, m),
                       "expression: gradient 0: found 1 x 8, wanted 4 x 8", Error);
  CHECK_THROWS_WITH_AS(differentiate(Cpu{}, x0 * w, m, gradients(no_gradient, accumulate(column)), scratch, m, row),
                       "expression: gradient 1: found 1 x 4, wanted 1 x 8", Error);
  evaluate(Cpu{}, x0 * expr::row<1>, out, m, column);
}

TEST_CASE("what is the same in all of a row is computed once for it, what an element changes in every packet") {
  constexpr index_t rows = 3, most = 40 * Packet<double>::width;
  std::vector<double> a = draws(rows * most, 11), y(a.size()), d_a(a.size()), of_row = draws(rows, 12);
  const Vector<double> row(of_row.data(), rows);
  constexpr auto norm = counted(rsqrt(row_mean(x0 * x0) + 1e-5));
  Arena scratch(1 << 16);
  for (const index_t packets : {1, 5, 40}) {
    const auto of = [&](std::vector<double>& x) {
      return Matrix<double>(x.data(), rows, packets * Packet<double>::width);
    };
    CHECK(times([&] { evaluate(Cpu{1}, x0 * norm, of(y), of(a)); }) == rows);
    CHECK(times([&] { evaluate(Cpu{1}, x0 * counted(exp(expr::row<1>)), of(y), of(a), row); }) == rows);
    CHECK(times([&] { evaluate(Cpu{1}, counted(x0) * norm, of(y), of(a)); }) == rows * (packets + 1));
    CHECK(times([&] { evaluate_rows(Cpu{1}, norm, row, of(a)); }) == rows);
    // On the way back, once more for what the sum's adjoint is added up of.
    const auto back = [&] { differentiate(Cpu{1}, x0 * norm, of(y), gradients(overwrite(of(d_a))), scratch, of(a)); };
    CHECK(times(back) == 2 * rows);
  }
}

TEST_CASE("several outputs of one pass may overwrite their operands; operands of a wrong shape are refused") {
  std::vector<double> a{1, 2, 3}, b{10, 20, 30};
  const Vector<double> av(a.data(), 3), bv(b.data(), 3);
  evaluate(Cpu{}, formulas(x0 + x1, x0 - x1), outputs(av, bv), av, bv);
  CHECK(a == std::vector<double>{11, 22, 33});
  CHECK(b == std::vector<double>{-9, -18, -27});
  CHECK_THROWS_AS(evaluate(Cpu{}, x0 + x1, av, av, Vector<double>(b.data(), 2)), Error);
  const Vector<double> empty(nullptr, 0);
  evaluate(Cpu{}, x0 + x1, empty, empty, empty);
}
