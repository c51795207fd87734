// NaN, infinities, zeros of both signs, subnormal and huge numbers: Cuda makes of them what Cpu makes of them, in bits.
#include <cmath>
#include <limits>

#include <tests/cuda/both_devices.hpp>

using namespace k3spec;
using test::as_doubles;
using test::check_both;
using test::numbers;

namespace {

constexpr auto x0 = expr::arg<0>;
constexpr auto x1 = expr::arg<1>;

/// One of each kind of number, and more of the ordinary ones around the thresholds of exp, log and tanh.
template <class T>
std::vector<T> special() {
  using S = accumulate_t<T>;
  using L = std::numeric_limits<S>;
  std::vector<S> x{L::quiet_NaN(), L::infinity(), S(0),     L::denorm_min(),
                   L::min(),       L::min() / 2,  L::max(), L::epsilon()};
  for (const double v :
       {0.5, 1.0, 0.625, 0.624, 1.0 / 3, 2.0, 80.0, 88.5, 89.0, 90.5, 104.0, 105.5, 1e10, 1e-10, 1e30}) {
    x.push_back(static_cast<S>(v));
  }
  std::vector<T> both;
  for (const S v : x) both.push_back(T(v)), both.push_back(T(-v));
  return both;
}

}  // namespace

TEST_CASE_TEMPLATE("special values in pairs: each function gives the same bits", T, float, double, bfloat16) {
  // A card has functions of its own for double.
  if (!test::stands_in && std::is_same_v<T, double>) return;
  const auto kinds = special<T>();
  std::vector<T> a, b;
  for (const T v : kinds) {
    for (const T w : kinds) a.push_back(v), b.push_back(w);
  }
  // Four at a time: a kernel of all sixteen would have more values than registers.
  const auto check = [&](const auto& four) {
    check_both([&]<class D>(std::type_identity<D>) {
      test::Mirror<T, D> x(a), y(b), out(std::vector<T>(a.size() * 4));
      const auto n = static_cast<index_t>(a.size());
      const auto result = [&](index_t i) { return Vector<element_t<D, T>>(out.vector().data() + i * n, n); };
      evaluate(test::device<D>(), four, outputs(result(0), result(1), result(2), result(3)), x.vector(), y.vector());
      return as_doubles(out.get());
    });
  };
  check(formulas(x0 + x1, x0 - x1, x0 * x1, x0 / x1));
  check(formulas(min(x0, x1), max(x0, x1), exp(x0), log(x0)));
  check(formulas(tanh(x0), sigmoid(x0), softplus(x0), sqrt(x0)));
  check(formulas(rsqrt(x0), abs(x0), -square(x0), expr::rounded_to<T>(x0 * x1)));
}

TEST_CASE("special values in pairs: each function's slopes, too") {
  const auto kinds = special<float>();
  std::vector<float> a, b;
  for (const float v : kinds) {
    for (const float w : kinds) a.push_back(v), b.push_back(w);
  }
  const auto check = [&](const auto& e) {
    check_both([&]<class D>(std::type_identity<D>) {
      const auto& device = test::device<D>();
      test::Mirror<float, D> x(a), y(b), d(b), d_x(a), d_y(a);
      arena_t<D> scratch(device, 0);
      differentiate(device, e, d.vector(), gradients(overwrite(d_x.vector()), accumulate(d_y.vector())), scratch,
                    x.vector(), y.vector());
      auto all = d_x.get();
      for (const float v : d_y.get()) all.push_back(v);
      return all;
    });
  };
  check(min(x0 + x1, x0 * x1) - max(x0, x1)), check(exp(x0) / x1), check(log(x0) - square(x1));
  check(tanh(x0) * abs(x1)), check(softplus(x0) - sigmoid(x1)), check(sqrt(x0) - rsqrt(x1));
}

TEST_CASE("special values in a row's sum, mean and maximum: the same bits wherever they stand") {
  const auto kinds = special<float>();
  for (const index_t columns : {1, 2, 33, 300, 16390}) {
    for (const float v : kinds) {
      std::vector<float> row = numbers<float>(columns);
      row[static_cast<std::size_t>(columns / 2)] = v;
      row.back() = v;
      check_both([&]<class D>(std::type_identity<D>) {
        test::Mirror<float, D> x(row), y(std::vector<float>(3));
        const auto& device = test::device<D>();
        const auto at = [&](index_t i) { return Vector<element_t<D, float>>(y.vector().data() + i, 1); };
        evaluate_rows(device, row_sum(x0), at(0), x.matrix(columns));
        evaluate_rows(device, row_mean(x0), at(1), x.matrix(columns));
        evaluate_rows(device, row_max(x0), at(2), x.matrix(columns));
        return y.get();
      });
    }
  }
}
