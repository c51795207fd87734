// Every loss of logits with a large number added to all: the bits that it has without, and near the formula in long
// double on the very same inputs. Unless a row's largest is subtracted before anything is added to it, the relative
// error of every probability is that of a sum as large as the logits: 5e-4 in float at 1e4.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/objectives/ttt_loss.hpp>

using namespace k3spec;

namespace {

using Real = long double;
constexpr std::size_t tokens = 37, label = 5;
constexpr double ce = 0.1, l1 = 0.9, w = 0.25;

/// Numbers of the losses, and gradients [tokens], under names.
template <class R>
struct Results {
  std::vector<R> softmax, soft_ce, soft_ce_gradient, cross_entropy, distance, dspark_gradient, alpha, log_alpha,
      log_alpha_gradient, lambda_gradient;

  template <class F>
  void each(F&& f) {
    f("softmax", softmax), f("soft cross-entropy", soft_ce), f("its gradient", soft_ce_gradient);
    f("cross-entropy", cross_entropy), f("distance", distance), f("DSpark's gradient", dspark_gradient);
    f("alpha", alpha), f("-log alpha", log_alpha), f("its gradient", log_alpha_gradient);
    f("lambda's gradient", lambda_gradient);
  }
};

/// As the objectives call them. X is how the logits are stored.
template <class X, class S>
Results<S> run(std::vector<X> x, std::vector<S> p) {
  constexpr auto n = static_cast<index_t>(tokens);
  const Matrix<const X> logits(x.data(), 1, n);
  const Matrix<const S> probs(p.data(), 1, n);
  const auto one = [](std::vector<S>& v) { return v.assign(1, S(NAN)), Vector<S>(v.data(), 1); };
  const auto row = [&](std::vector<S>& v) { return v.assign(tokens, S(NAN)), Matrix<S>(v.data(), 1, n); };
  Results<S> r;
  Arena scratch(1024);
  const S d = 1;
  const Vector<const S> d_row(&d, 1);
  evaluate(Cpu{}, softmax_formula(), row(r.softmax), logits);

  std::vector<S> largest;
  const index_t at = label;
  const Vector<const index_t> labels(&at, 1);
  evaluate_rows(Cpu{}, row_max_formula(), one(largest), logits);
  const Vector<const S> top(largest.data(), 1);
  evaluate_rows(Cpu{}, log_mass_formula(), one(r.cross_entropy), logits, top);
  subtract_label(Cpu{}, logits, top, labels, Vector<S>(r.cross_entropy.data(), 1));
  evaluate_rows(Cpu{}, distance_formula(), one(r.distance), logits, probs, top);
  const auto d_dspark = row(r.dspark_gradient);
  differentiate_rows(Cpu{}, dspark_row_formula(ce, l1), d_row, gradients(overwrite(d_dspark), no_gradient, no_gradient),
                     scratch, logits, probs, top);
  subtract_label_backward(Cpu{}, labels, ce, d_row, d_dspark);

  TttLoss::row_alphas(Cpu{}, logits, probs, one(r.alpha));
  const auto through = [&](const TttLoss& loss, std::vector<S>& value, std::vector<S>& gradient) {
    TttLoss::row_losses(Cpu{}, logits, probs, one(value));
    if (loss.lk == LkLoss::alpha) value[0] = TttLoss::of_acceptance(r.alpha[0]);
    const S d_loss = loss.row_adjoint(1.0, r.alpha[0]);
    loss.row_gradients(Cpu{}, logits, probs, 0.0, Vector<const S>(&d_loss, 1), row(gradient), scratch);
  };
  through({}, r.soft_ce, r.soft_ce_gradient);
  through({.lk = LkLoss::alpha}, r.log_alpha, r.log_alpha_gradient);
  std::vector<S> unused;
  through({.lk = LkLoss::lambda, .kl_scale = w, .kl_decay = 0}, unused, r.lambda_gradient);
  return r;
}

/// The formulas, and how far rounding may take a value from them. With eps between two numbers next to 1:
///   log q  (x - m) and (x - m) - log Σ round once each; Σ has terms of 2 ulp and, of 37 columns, six additions one
///          behind another; log Σ is right to 2 ulp: eps · (|log q| + 5 + 2 log Σ)
///   q      that, and 2 ulp of exp. Call it e.
///   sums   of terms t: Σ |t| · 4 eps for the additions and a product, beside what each t brings
struct Formulas {
  std::vector<Real> x, p, q, log_q, e;
  Real eps;
  Results<Real> value, bound;

  template <class X, class S>
  Formulas(const std::vector<X>& logits, const std::vector<S>& probs)
      : x(logits.begin(), logits.end()), p(probs.begin(), probs.end()), eps(std::numeric_limits<S>::epsilon()) {
    const Real largest = *std::max_element(x.begin(), x.end());
    Real mass = 0;
    for (const Real v : x) mass += std::exp(v - largest);
    for (const Real v : x) {
      log_q.push_back(v - largest - std::log(mass)), q.push_back(std::exp(log_q.back()));
      e.push_back(eps * (std::abs(log_q.back()) + 7 + 2 * std::log(mass)));
    }
    losses(), all_gradients();
  }

  void losses() {
    value.softmax = q;
    for (std::size_t v = 0; v < tokens; ++v) bound.softmax.push_back(q[v] * e[v]);
    value.cross_entropy = {-log_q[label]}, bound.cross_entropy = {e[label]};
    const auto sum = [&](std::vector<Real>& value_of, std::vector<Real>& bound_of, auto&& term, auto&& error) {
      Real total = 0, off = 0;
      for (std::size_t v = 0; v < tokens; ++v) total += term(v), off += error(v);
      value_of = {total}, bound_of = {off};
    };
    sum(
        value.soft_ce, bound.soft_ce, [&](std::size_t v) { return -p[v] * log_q[v]; },
        [&](std::size_t v) { return p[v] * (e[v] + 4 * eps * std::abs(log_q[v])); });
    sum(
        value.distance, bound.distance, [&](std::size_t v) { return std::abs(q[v] - p[v]); },
        [&](std::size_t v) { return q[v] * e[v] + 4 * eps * (q[v] + p[v]); });
    sum(
        value.alpha, bound.alpha, [&](std::size_t v) { return std::min(q[v], p[v]); },
        [&](std::size_t v) { return q[v] * e[v] + 4 * eps * (q[v] + p[v]); });
    const Real alpha = value.alpha[0];
    value.log_alpha = {-std::log(alpha)};
    bound.log_alpha = {bound.alpha[0] / alpha + 2 * eps * std::abs(std::log(alpha))};
  }

  /// d Σ_w f_w(q_w) / dx_v = q_v (f'_v - Σ_w f'_w q_w): at most 2 (e_v + Σ q e) of q_v, and the roundings of a sum, two
  /// products and the last difference.
  void all_gradients() {
    Real mean_error = 0, p_sum = 0;
    for (std::size_t v = 0; v < tokens; ++v) mean_error += q[v] * e[v], p_sum += p[v];
    const auto slopes = [&](auto&& slope) {
      Real mean = 0;
      std::vector<Real> d;
      for (std::size_t v = 0; v < tokens; ++v) mean += slope(v) * q[v];
      for (std::size_t v = 0; v < tokens; ++v) d.push_back(q[v] * (slope(v) - mean));
      return d;
    };
    const auto d_distance = slopes([&](std::size_t v) { return q[v] > p[v] ? Real(1) : Real(-1); });
    const auto d_alpha = slopes([&](std::size_t v) { return q[v] < p[v] ? Real(1) : Real(0); });
    const Real alpha = value.alpha[0];
    for (std::size_t v = 0; v < tokens; ++v) {
      const Real d_soft = p_sum * q[v] - p[v], d_label = q[v] - (v == label ? 1 : 0);
      const Real any = q[v] * (2 * e[v] + 2 * mean_error + 8 * eps) + 4 * eps * (p[v] + (v == label ? 1 : 0));
      value.soft_ce_gradient.push_back(d_soft), bound.soft_ce_gradient.push_back(any);
      value.dspark_gradient.push_back(ce * d_label + l1 * d_distance[v]), bound.dspark_gradient.push_back(any);
      value.lambda_gradient.push_back(w * d_soft - (1 - w) * d_alpha[v]), bound.lambda_gradient.push_back(any);
      value.log_alpha_gradient.push_back(-d_alpha[v] / alpha);
      bound.log_alpha_gradient.push_back((any + std::abs(d_alpha[v]) * bound.alpha[0] / alpha) / alpha);
    }
  }
};

/// Logits that float still holds exactly when 1e4 is added: multiples of 2^-9; one that is far from likely.
double logit(std::size_t v, double phase) {
  return std::round((v == 7 ? -20 : 3 * std::sin(phase + 1.7 * static_cast<double>(v))) * 512) / 512;
}

}  // namespace

TEST_CASE_TEMPLATE("logits with an offset: the bits of those without, and near the formulas", X, float, double,
                   bfloat16) {
  using S = accumulate_t<X>;
  std::vector<S> teacher, p(tokens);
  for (std::size_t v = 0; v < tokens; ++v) teacher.push_back(static_cast<S>(logit(v, 0.9)));
  constexpr auto n = static_cast<index_t>(tokens);
  evaluate(Cpu{}, softmax_formula(), Matrix<S>(p.data(), 1, n), Matrix<const S>(teacher.data(), 1, n));

  for (const double offset : {0.0, 30.0, -30.0, 100.0, -100.0, 600.0, -600.0, 1e4, -1e4}) {
    CAPTURE(offset);
    std::vector<X> x;
    std::vector<S> shifted;
    for (std::size_t v = 0; v < tokens; ++v) x.push_back(static_cast<X>(static_cast<S>(logit(v, 0.1) + offset)));
    const S largest = *std::max_element(x.begin(), x.end());
    for (const X v : x) shifted.push_back(static_cast<S>(v) - largest);

    auto found = run(x, p), without = run(shifted, p);
    std::vector<std::vector<S>*> same;
    without.each([&](const char*, auto& v) { same.push_back(&v); });
    std::vector<std::pair<std::vector<Real>*, std::vector<Real>*>> wanted;
    Formulas formulas(x, p);
    formulas.value.each([&](const char*, auto& v) { wanted.push_back({&v, nullptr}); });
    std::size_t at = 0;
    formulas.bound.each([&](const char*, auto& v) { wanted[at++].second = &v; });
    at = 0;
    found.each([&](const char* what, const std::vector<S>& v) {
      CAPTURE(what);
      const auto& [value, bound] = wanted[at];
      CHECK(v == *same[at++]);
      Real worst = 0;  // in bounds
      for (std::size_t i = 0; i < v.size(); ++i) {
        worst = std::max(worst, std::abs(v[i] - value->at(i)) / (bound->at(i) + std::numeric_limits<S>::min()));
        if (std::isnan(v[i])) worst = INFINITY;
      }
      CHECK(worst <= 1);
    });
  }
}

TEST_CASE("softmax of [604, 600] in float") {
  std::vector<float> x{604, 600};
  const Matrix<float> row(x.data(), 1, 2);
  evaluate(Cpu{}, softmax_formula(), row, row);
  CHECK(x[0] == doctest::Approx(0.98201379).epsilon(2e-7));
  CHECK(x[1] == doctest::Approx(0.01798621).epsilon(2e-7));
}

TEST_CASE_TEMPLATE("confidence: every digit where its logit is large, too, and its gradient's", T, float, double) {
  Arena scratch(1024);
  for (const double logit : {0.0, 0.7, -3.0, 17.0, -17.0, 30.0, -30.0, 100.0, -100.0, 600.0, -600.0, 1e4, -1e4}) {
    for (const double wanted : {0.0, 1e-3, 0.3, 0.5, 1 - 1.0 / (1 << 20), 1.0}) {
      CAPTURE(logit);
      CAPTURE(wanted);
      const T z = static_cast<T>(logit), a = static_cast<T>(wanted), one = 1;
      T y = T(NAN), d = T(NAN);
      const Vector<const T> zs(&z, 1), as(&a, 1);
      evaluate(Cpu{}, confidence_formula(), Vector<T>(&y, 1), zs, as);
      differentiate(Cpu{}, confidence_formula(), Vector<const T>(&one, 1),
                    gradients(overwrite(Vector<T>(&d, 1)), no_gradient), scratch, zs, as);
      const auto softplus = [](Real x) { return std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x))); };
      const Real x = z, up = a * softplus(-x), down = (1 - Real(a)) * softplus(x);
      const Real slope_up = a / (1 + std::exp(x)), slope_down = (1 - Real(a)) / (1 + std::exp(-x));
      // exp and log are right to 2 ulp, and six operations round beside them; what is below T's normal numbers may go.
      const Real eps = 8 * Real(std::numeric_limits<T>::epsilon()), least = std::numeric_limits<T>::min();
      CHECK(std::abs(y - (up + down)) <= eps * (up + down) + least);
      CHECK(std::abs(d - (slope_down - slope_up)) <= eps * (slope_up + slope_down) + least);
    }
  }
}
