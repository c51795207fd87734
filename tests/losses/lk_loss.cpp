// The acceptance losses by hand: values, ties, what cannot be accepted, options out of range.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/objectives/ttt_loss.hpp>

using namespace k3spec;

namespace {

/// One row, through TttLoss as the objective calls it.
template <class T>
struct Row {
  std::vector<T> x, p;
  T loss{}, alpha{};

  std::vector<T> run(const TttLoss& l, double weight = 1) {
    const auto n = static_cast<index_t>(x.size());
    const Matrix<const T> logits(x.data(), 1, n), probs(p.data(), 1, n);
    if (l.lk != LkLoss::none) TttLoss::row_alphas(Cpu{}, logits, probs, Vector<T>(&alpha, 1));
    TttLoss::row_losses(Cpu{}, logits, probs, Vector<T>(&loss, 1));
    if (l.lk == LkLoss::alpha) loss = TttLoss::of_acceptance(alpha);
    std::vector<T> d(x.size(), T(NAN));
    const T d_row = l.row_adjoint(weight, alpha);
    Arena scratch(TttLoss::scratch_bytes<T>(1));
    l.row_gradients(Cpu{}, logits, probs, static_cast<double>(alpha), Vector<const T>(&d_row, 1),
                    Matrix<T>(d.data(), 1, n), scratch);
    return d;
  }
};

const TttLoss alpha_loss{.lk = LkLoss::alpha}, lambda_loss{.lk = LkLoss::lambda, .kl_scale = 0.5, .kl_decay = 2};

}  // namespace

TEST_CASE("acceptance: by hand") {
  // q = (1, 2, 5) / 8, p = (4, 2, 2) / 8: minima (1, 2, 2) / 8, the middle one a tie up to rounding.
  Row<double> row{{0, std::log(2.0), std::log(5.0)}, {0.5, 0.25, 0.25}};
  row.run(alpha_loss);
  CHECK(row.alpha == doctest::Approx(0.625).epsilon(1e-15));
  CHECK(row.loss == doctest::Approx(-std::log(0.625)).epsilon(1e-15));
  // Away from the tie: d(Σ min) / dx_j = q_j (s_j - Σ s q), s = 1 where q is the smaller.
  row.x[1] -= 0.1;
  const double z = 6 + 2 * std::exp(-0.1), q0 = 1 / z, q1 = 2 * std::exp(-0.1) / z, q2 = 5 / z, sum = q0 + q1;
  const std::vector<double> slopes{q0 * (1 - sum), q1 * (1 - sum), q2 * (0 - sum)};
  const auto d = row.run(alpha_loss, 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(d[i] == doctest::Approx(-3 / row.alpha * slopes[i]).epsilon(1e-13));

  const auto mixed = row.run(lambda_loss, 3);
  const double w = 0.5 * std::exp(-2 * row.alpha), q[] = {q0, q1, q2};
  CHECK(row.loss == doctest::Approx(-(0.5 * std::log(q0) + 0.25 * std::log(q1) + 0.25 * std::log(q2))).epsilon(1e-14));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(mixed[i] == doctest::Approx(3 * (w * (q[i] - row.p[i]) - (1 - w) * slopes[i])).epsilon(1e-13));
  }
  CHECK(lambda_loss.of_step(2, row.alpha, 1) == doctest::Approx(w * 2 + (1 - w) * (1 - row.alpha)).epsilon(1e-15));
  CHECK(lambda_loss.of_step(0, 0, 0) == 0);
}

TEST_CASE_TEMPLATE("acceptance: a tie gives each side half the derivative", T, float, double) {
  // Exact in any type: q = p = (1, 1) / 2 in the first two, and the third of either is 0.
  Row<T> row{{0, 0, T(-1000)}, {T(0.5), T(0.5), 0}};
  const auto d = row.run(alpha_loss);
  CHECK(row.alpha == 1);
  CHECK(row.loss == 0);
  CHECK(d == std::vector<T>{0, 0, 0});  // s = (1, 1, 1) / 2: nothing to gain
  // A tie in the first alone: s = (1/2, 0, 1), q = (1/2, 1/4, 1/4).
  Row<T> one{{std::log(T(2)), 0, 0}, {}};
  one.p = {std::exp(one.x[0] - std::log(T(4))), T(0.125), T(0.375)};
  T q0 = 0;
  evaluate_rows(Cpu{}, row_max(softmax_formula()), Vector<T>(&q0, 1), Matrix<const T>(one.x.data(), 1, 3));
  one.p[0] = q0;
  const auto g = one.run({.lk = LkLoss::lambda, .kl_scale = 0});
  CHECK(g[0] == doctest::Approx(0.0).epsilon(1e-6));
  CHECK(g[1] == doctest::Approx(0.25 * 0.5).epsilon(1e-6));
  CHECK(g[2] == doctest::Approx(-0.25 * 0.5).epsilon(1e-6));
}

TEST_CASE_TEMPLATE("acceptance: what cannot be accepted costs nothing and moves nothing", T, float, double) {
  Row<T> row{{0, T(-2000)}, {0, 1}};
  const auto d = row.run(alpha_loss);
  CHECK(row.alpha == 0);
  CHECK(row.loss == 0);
  CHECK(d == std::vector<T>{0, 0});
}

TEST_CASE("acceptance: an alpha below the smallest normal number has no gradient, one above it has its own") {
  CHECK(alpha_loss.row_adjoint(1, 1e-40F) == 0);  // else 1e40, which float has not
  CHECK(alpha_loss.row_adjoint(1, 1e-310) == 0);
  CHECK(alpha_loss.row_adjoint(1, 0.0F) == 0);
  CHECK(alpha_loss.row_adjoint(2, 2e-38F) == doctest::Approx(-1e38F));
  CHECK(alpha_loss.row_adjoint(1, 1e-40) == doctest::Approx(-1e40));
  Row<float> row{{0, std::log(1e-40F)}, {0, 1}};
  const auto d = row.run(alpha_loss);
  CHECK(row.alpha > 0);
  CHECK(row.alpha < std::numeric_limits<float>::min());
  CHECK(std::isfinite(row.loss));
  CHECK(d == std::vector<float>{0, 0});
}

TEST_CASE_TEMPLATE("acceptance: a vocabulary of one token", T, float, double) {
  for (const TttLoss& l : {TttLoss{}, alpha_loss, lambda_loss}) {
    Row<T> row{{T(3)}, {1}};
    CHECK(row.run(l) == std::vector<T>{0});
    CHECK(l.of_step(static_cast<double>(row.loss), static_cast<double>(row.alpha), 1) == 0);
  }
}

TEST_CASE("LK options out of range are refused by name") {
  const auto refuse = [](double scale, double decay, const char* message) {
    CHECK_THROWS_WITH_AS((TttLoss{LkLoss::lambda, scale, decay}.check()), message, Error);
  };
  refuse(-0.5, 3, "lk_kl_scale: found -0.5, wanted 0 to 1");
  refuse(1.5, 3, "lk_kl_scale: found 1.5, wanted 0 to 1");
  refuse(NAN, 3, "lk_kl_scale: found nan, wanted 0 to 1");
  refuse(1, -1, "lk_kl_decay: found -1, wanted a number >= 0");
  refuse(1, NAN, "lk_kl_decay: found nan, wanted a number >= 0");
  refuse(1, INFINITY, "lk_kl_decay: found inf, wanted a number >= 0");
  TttLoss{LkLoss::lambda, 0, 0}.check();
  TttLoss{LkLoss::lambda, 1, 1e300}.check();
}
