// A user's expressions give the same bits on Cuda as on Cpu, in all shapes and types, forward and backward.
#include <doctest/doctest.h>

#include <cstring>

#include <tests/cuda/device.hpp>
#include <tests/support/reference_case.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>

using namespace k3spec;

namespace {

constexpr auto x0 = expr::arg<0>;
constexpr auto x1 = expr::arg<1>;
constexpr auto w2 = expr::column<2>;
constexpr auto r3 = expr::row<3>;

// A user's: +, -, ×, ÷ only; with a weight and a row reduction; with transcendental functions.
constexpr auto rational = (x0 * x1 - 0.3) / (x0 * x0 + 1.7) + w2 * x1 - r3;
constexpr auto centred = w2 * (x0 - row_mean(x0)) / (row_mean(square(x0)) + 0.25) - row_max(x1) * r3 * 1e-3;
constexpr auto wavy = tanh(x0 * 0.7) * exp(-abs(x1)) + log(1.5 + x0 * x0) * sigmoid(w2) - softplus(x1) * r3;
// The derivative of a maximum is asked for by name.
constexpr auto centred_smooth = w2 * (x0 - row_mean(x0)) / (row_mean(square(x0)) + 0.25) - row_sum(x1) * 1e-3;

template <class T>
struct Data {
  index_t rows, columns;
  std::vector<T> x0, x1, w, r, d_y;

  Data(index_t of_rows, index_t of_columns) : rows(of_rows), columns(of_columns) {
    draw(x0, rows * columns, 1), draw(x1, rows * columns, 2), draw(w, columns, 3), draw(r, rows, 4);
    draw(d_y, rows * columns, 5);
  }
  static void draw(std::vector<T>& to, index_t n, std::uint64_t seed) {
    const Philox random(seed);
    for (index_t i = 0; i < n; ++i) {
      to.push_back(static_cast<T>(static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i)))));
    }
  }
};

template <class T>
struct Results {
  std::vector<T> y;
  std::vector<accumulate_t<T>> d_x0, d_x1, d_w;
};

/// Operands and results on a device. `offset` elements before each tensor and `gap` after each row put rows at
/// addresses that allow no 16-byte access.
template <class T, class D>
class Run {
 public:
  using S = accumulate_t<T>;
  Run(const Data<T>& data, index_t offset, index_t gap)
      : rows_(data.rows), columns_(data.columns), offset_(offset), stride_(data.columns + gap) {
    x0_ = spread(data.x0), x1_ = spread(data.x1), d_y_ = spread(data.d_y);
    w_ = test::Mirror<T, D>(shifted(data.w)), r_ = test::Mirror<T, D>(shifted(data.r));
    y_ = spread(data.x0);
    d_x0_ = blank<S>(), d_x1_ = blank<S>();
    d_w_ = test::Mirror<S, D>(std::vector<S>(static_cast<std::size_t>(offset_ + columns_), S(0.5)));
  }

  template <class E, class Smooth>
  Results<T> operator()(const E& e, const Smooth& smooth) {
    const auto& device = test::device<D>(2);
    evaluate(device, e, matrix(y_), matrix(x0_), matrix(x1_), vector(w_, columns_), vector(r_, rows_));
    arena_t<D> scratch(device, differentiate_scratch<Smooth, S>(rows_));
    differentiate(
        device, smooth, matrix(d_y_),
        gradients(overwrite(matrix(d_x0_)), accumulate(matrix(d_x1_)), accumulate(vector(d_w_, columns_)), no_gradient),
        scratch, matrix(x0_), matrix(x1_), vector(w_, columns_), vector(r_, rows_));
    return {y_.get(), d_x0_.get(), d_x1_.get(), d_w_.get()};
  }

 private:
  template <class U>
  std::vector<U> shifted(const std::vector<U>& from) const {
    std::vector<U> to(static_cast<std::size_t>(offset_), U(S(9)));
    to.insert(to.end(), from.begin(), from.end());
    return to;
  }
  test::Mirror<T, D> spread(const std::vector<T>& from) const {
    std::vector<T> to(static_cast<std::size_t>(offset_ + rows_ * stride_), T(S(7)));
    for (index_t r = 0; r < rows_; ++r) {
      std::copy_n(from.begin() + r * columns_, columns_, to.begin() + offset_ + r * stride_);
    }
    return test::Mirror<T, D>(to);
  }
  template <class U>
  test::Mirror<U, D> blank() const {
    return test::Mirror<U, D>(std::vector<U>(static_cast<std::size_t>(offset_ + rows_ * stride_), U(0.25)));
  }
  template <class U>
  Matrix<element_t<D, U>> matrix(test::Mirror<U, D>& m) const {
    return Matrix<element_t<D, U>>(m.vector().data() + offset_, Extents<dyn, dyn>(rows_, columns_), stride_);
  }
  template <class U>
  Vector<element_t<D, U>> vector(test::Mirror<U, D>& m, index_t n) const {
    return Vector<element_t<D, U>>(m.vector().data() + offset_, n);
  }

  index_t rows_, columns_, offset_, stride_;
  test::Mirror<T, D> x0_, x1_, w_, r_, y_, d_y_;
  test::Mirror<S, D> d_x0_, d_x1_, d_w_;
};

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_same(const Results<T>& found, const Results<T>& wanted) {
  CHECK(same(found.y, wanted.y));
  CHECK(same(found.d_x0, wanted.d_x0));
  CHECK(same(found.d_x1, wanted.d_x1));
  CHECK(same(found.d_w, wanted.d_w));
}

/// With row reductions each row has a warp, which takes its time where a CPU plays all of its threads.
template <class T, class F>
void for_shapes(F&& f) {
  for (const index_t rows : {1, 31}) {
    for (const index_t columns : {1, 7, 32, 33, 1000}) {
      f(Data<T>(rows, columns), 0, 0);
      f(Data<T>(rows, columns), 1, 3);
    }
  }
  f(Data<T>(4097, 33), 0, 0);
}

}  // namespace

TEST_CASE_TEMPLATE("+, -, x, / and row reductions: the same bits on Cuda as on Cpu", T, float, double, bfloat16) {
  for_shapes<T>([](const Data<T>& data, index_t offset, index_t gap) {
    CAPTURE(data.rows);
    CAPTURE(data.columns);
    CAPTURE(offset);
    check_same(Run<T, Cuda>(data, offset, gap)(rational, rational), Run<T, Cpu>(data, offset, gap)(rational, rational));
    if (data.rows > 1000 && !std::is_same_v<T, float>) return;
    check_same(Run<T, Cuda>(data, offset, gap)(centred, centred_smooth),
               Run<T, Cpu>(data, offset, gap)(centred, centred_smooth));
  });
}

/// double's functions are those of CUDA's library on a card: some units in the last place of the largest value.
template <class T>
void check_near(const Results<T>& found, const Results<T>& wanted) {
  const auto error = [](const auto& a, const auto& b) {
    return test::relative_error({a.begin(), a.end()}, {b.begin(), b.end()});
  };
  CHECK(error(found.y, wanted.y) <= 1e-14);
  CHECK(error(found.d_x0, wanted.d_x0) <= 1e-14);
  CHECK(error(found.d_x1, wanted.d_x1) <= 1e-14);
  CHECK(error(found.d_w, wanted.d_w) <= 1e-13);
}

TEST_CASE_TEMPLATE("transcendental functions: the same bits, too", T, float, double, bfloat16) {
  for_shapes<T>([](const Data<T>& data, index_t offset, index_t gap) {
    CAPTURE(data.rows);
    CAPTURE(data.columns);
    CAPTURE(offset);
    const auto found = Run<T, Cuda>(data, offset, gap)(wavy, wavy), wanted = Run<T, Cpu>(data, offset, gap)(wavy, wavy);
    if constexpr (test::stands_in || !std::is_same_v<T, double>) {
      check_same(found, wanted);
    } else {
      check_near(found, wanted);
    }
  });
}

TEST_CASE("four million elements: the same bits") {
  const Data<float> data(4097, 1000);
  check_same(Run<float, Cuda>(data, 0, 0)(rational, rational), Run<float, Cpu>(data, 0, 0)(rational, rational));
}

TEST_CASE("rows longer than a warp's have a block each, and the same bits") {
  for (const index_t columns : {16384, 16385, 40007}) {
    const Data<float> data(3, columns);
    CAPTURE(columns);
    check_same(Run<float, Cuda>(data, 0, 1)(centred, centred_smooth),
               Run<float, Cpu>(data, 0, 1)(centred, centred_smooth));
  }
}

TEST_CASE("one value per row: a loss and its gradient, the same bits") {
  for (const index_t columns : {1, 33, 1000, 20000}) {
    const Data<float> data(31, columns);
    const auto run = [&]<class D>(std::type_identity<D>) {
      test::Mirror<float, D> x(data.x0), p(data.x1), y(data.r), d_y(data.r), d_x(data.x0), d_p(data.x0);
      const auto& device = test::device<D>();
      arena_t<D> scratch(device, 0);
      evaluate_rows(device, soft_cross_entropy_formula(), y.vector(), x.matrix(columns), p.matrix(columns));
      differentiate_rows(device, soft_cross_entropy_formula(), d_y.vector(),
                         gradients(overwrite(d_x.matrix(columns)), overwrite(d_p.matrix(columns))), scratch,
                         x.matrix(columns), p.matrix(columns));
      return std::tuple(y.get(), d_x.get(), d_p.get());
    };
    CHECK(run(std::type_identity<Cuda>{}) == run(std::type_identity<Cpu>{}));
  }
}

TEST_CASE("several outputs that are operands as well; a constant; nothing at all") {
  const std::vector<float> a{1, 2, 3}, b{10, 20, 30};
  using OnCard = element_t<Cuda, float>;
  test::Mirror<float, Cuda> av(a), bv(b);
  const Cuda& cuda = test::device<Cuda>();
  evaluate(cuda, formulas(x0 + x1, x0 - x1), outputs(av.vector(), bv.vector()), av.vector(), bv.vector());
  CHECK(av.get() == std::vector<float>{11, 22, 33});
  CHECK(bv.get() == std::vector<float>{-9, -18, -27});
  evaluate(cuda, expr::as_expression(0.5), av.vector());
  CHECK(av.get() == std::vector<float>{0.5f, 0.5f, 0.5f});
  const Vector<OnCard> empty(nullptr, 0);
  evaluate(cuda, x0 + x1, empty, empty, empty);
  const Matrix<OnCard> no_columns(nullptr, 3, 0);
  evaluate(cuda, x0 / row_sum(x0), no_columns, no_columns);
  evaluate_rows(cuda, row_sum(x0) + 4.0, av.vector(), no_columns);
  CHECK(av.get() == std::vector<float>{4, 4, 4});
  // A column's gradient over no rows at all: nothing is added, and what is overwritten is 0.
  CudaArena scratch(cuda, 64);
  const Matrix<OnCard> no_rows(nullptr, 0, 3);
  differentiate(cuda, x0 * expr::column<1>, no_rows, gradients(no_gradient, overwrite(bv.vector())), scratch, no_rows,
                av.vector());
  CHECK(bv.get() == std::vector<float>{0, 0, 0});
}

TEST_CASE("wrong shapes and host memory are refused by name, before anything runs") {
  std::vector<float> host(8);
  const auto on_host = test::taken_for_the_cards(Vector<float>(host.data(), 8));
  using OnCard = element_t<Cuda, float>;
  test::Mirror<float, Cuda> x(host), y(host);
  const Cuda& cuda = test::device<Cuda>();
  CHECK_THROWS_WITH_AS(evaluate(cuda, x0 + x1, y.vector(), x.vector(), Vector<OnCard>(x.vector().data(), 7)),
                       "expression: operand 1: found 1 x 7, wanted 1 x 8", Error);
  CHECK_THROWS_WITH_AS(evaluate(cuda, x0 + x1, y.vector(), x.vector(), on_host),
                       "expression: operand 1: found host memory, wanted device memory", Error);
  CHECK_THROWS_WITH_AS(evaluate(cuda, x0 * 2.0, on_host, x.vector()),
                       "expression: output 0: found host memory, wanted device memory", Error);
  CHECK_THROWS_WITH_AS(evaluate(cuda, x0 * 2.0, y.vector(), Vector<OnCard>(nullptr, 8)),
                       "expression: operand 0: found a null pointer, wanted device memory", Error);
  CudaArena scratch(cuda, 0);
  CHECK_THROWS_WITH_AS(differentiate(cuda, x0 * 2.0, y.vector(), gradients(overwrite(on_host)), scratch, x.vector()),
                       "expression: gradient 0: found host memory, wanted device memory", Error);
}
