// The row losses of the block drafts where they could overflow, cancel or be undefined.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>

using namespace k3spec;

namespace {

template <class T>
struct Row {
  std::vector<T> x, p;
  T largest{}, ce{}, distance{};

  Matrix<T> matrix(std::vector<T>& v) { return Matrix<T>(v.data(), 1, static_cast<index_t>(v.size())); }

  void run(index_t label) {
    const Vector<T> top(&largest, 1);
    evaluate_rows(Cpu{}, row_max_formula(), top, matrix(x));
    evaluate_rows(Cpu{}, log_mass_formula(), Vector<T>(&ce, 1), matrix(x), top);
    subtract_label(Cpu{}, matrix(x), Vector<const T>(top), Vector<const index_t>(&label, 1), Vector<T>(&ce, 1));
    if (!p.empty()) evaluate_rows(Cpu{}, distance_formula(), Vector<T>(&distance, 1), matrix(x), matrix(p), top);
  }
  /// Of 0.1 CE + 0.9 |p - q|₁, each with weight d.
  std::vector<T> gradient(index_t label, T d) {
    std::vector<T> d_x(x.size(), std::numeric_limits<T>::quiet_NaN());
    Arena scratch(1024);
    differentiate_rows(Cpu{}, dspark_row_formula(0.1, 0.9), Vector<const T>(&d, 1),
                       gradients(overwrite(matrix(d_x)), no_gradient, no_gradient), scratch, matrix(x), matrix(p),
                       Vector<T>(&largest, 1));
    subtract_label_backward(Cpu{}, Vector<const index_t>(&label, 1), 0.1, Vector<const T>(&d, 1), matrix(d_x));
    return d_x;
  }
};

template <class T>
T acceptance(T distance) {
  T a{};
  evaluate(Cpu{}, acceptance_formula(), Vector<T>(&a, 1), Vector<T>(&distance, 1));
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("cross-entropy: uniform, certain, and far beyond what exp can hold", T, float, double) {
  const double eps = std::numeric_limits<T>::epsilon();
  Row<T> uniform{std::vector<T>(37, T(-3)), {}};
  uniform.run(36);
  CHECK(uniform.ce == doctest::Approx(std::log(37.0)).epsilon(8 * eps));
  Row<T> certain{{T(0), T(5000), T(-5000)}, {}};
  certain.run(1);
  CHECK(certain.ce == 0);
  certain.run(2);
  CHECK(certain.ce == 10000);
  Row<T> single{{T(7)}, {}};
  single.run(0);
  CHECK(single.ce == 0);
}

TEST_CASE_TEMPLATE("distance: 0 for the same distribution, 2 and acceptance 0 for disjoint ones", T, float, double) {
  // A softmax of the same logits, as the teacher's is made, is the same to the bit.
  Row<T> same{{T(1), T(1), T(1), T(1)}, std::vector<T>(4)};
  evaluate(Cpu{}, softmax_formula(), same.matrix(same.p), same.matrix(same.x));
  same.run(0);
  CHECK(same.distance == 0);
  CHECK(acceptance(same.distance) == 1);
  // At q = p the distance's slope is taken as 0: what is left is 0.1 (q - label).
  CHECK(same.gradient(2, T(1))[0] == doctest::Approx(0.025).epsilon(1e-6));
  CHECK(same.gradient(2, T(1))[2] == doctest::Approx(-0.075).epsilon(1e-6));
  Row<T> apart{{T(900), T(-900)}, {T(0), T(1)}};
  apart.run(1);
  CHECK(apart.distance == 2);
  CHECK(acceptance(apart.distance) == 0);
  for (const T g : apart.gradient(1, T(1))) CHECK(std::isfinite(g));
  CHECK(acceptance(T(2.0000005)) == 0);  // what rounding may leave beyond the ends
  CHECK(acceptance(T(-1e-7)) == 1);
}

TEST_CASE("distance: by hand") {
  // q = (1, 2, 5) / 8, p = (4, 2, 2) / 8.
  Row<double> row{{0, std::log(2.0), std::log(5.0)}, {0.5, 0.25, 0.25}};
  row.run(2);
  CHECK(row.distance == doctest::Approx(0.75).epsilon(1e-15));
  CHECK(acceptance(row.distance) == doctest::Approx(0.625).epsilon(1e-15));
  // d|p - q|/dx_j = q_j (s_j - Σ s q), s the sign of q - p. Away from q_1 = p_1, which has none.
  row.x[1] += 0.1, row.run(2);
  const double z = 6 + 2 * std::exp(0.1), q0 = 1 / z, q1 = 2 * std::exp(0.1) / z, q2 = 5 / z, sum = -q0 + q1 + q2;
  const auto g = row.gradient(2, 3.0);
  CHECK(g[0] == doctest::Approx(3 * (0.1 * q0 + 0.9 * q0 * (-1 - sum))).epsilon(1e-13));
  CHECK(g[1] == doctest::Approx(3 * (0.1 * q1 + 0.9 * q1 * (1 - sum))).epsilon(1e-13));
  CHECK(g[2] == doctest::Approx(3 * (0.1 * (q2 - 1) + 0.9 * q2 * (1 - sum))).epsilon(1e-13));
}

TEST_CASE_TEMPLATE("confidence: as the logarithms say, and finite where they are not", T, float, double) {
  const auto loss = [](double z, double a) {
    T logit = static_cast<T>(z), accept = static_cast<T>(a), y{};
    evaluate(Cpu{}, confidence_formula(), Vector<T>(&y, 1), Vector<T>(&logit, 1), Vector<T>(&accept, 1));
    return static_cast<double>(y);
  };
  const double s = 1 / (1 + std::exp(-0.7));
  CHECK(loss(0.7, 0.3) == doctest::Approx(-(0.3 * std::log(s) + 0.7 * std::log(1 - s))).epsilon(1e-6));
  CHECK(loss(0, 0.9) == doctest::Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(loss(800, 1) == 0);
  CHECK(loss(800, 0) == 800);
  CHECK(loss(-800, 1) == 800);
  CHECK(loss(-800, 0) == 0);
}
