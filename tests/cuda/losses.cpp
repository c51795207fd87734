// What stands between a vocabulary's products and a loss, on Cuda: Cpu's bits. (On a card, exp and log of double are
// its own.)
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include <tests/cuda/layout.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/objectives/ttt_loss.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/row_adjoints.hpp>

using namespace k3spec;
using test::check_both;
using test::Layout;
using test::Strided;

namespace {

/// In double, where a host stands in: what nvcc makes of such formulas is seen in expressions.cpp, too.
template <class S>
constexpr bool compiled = test::stands_in || std::is_same_v<S, float>;

void append(std::vector<double>& to, const std::vector<double>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// The columns of the largest, as Cpu and Cuda find them.
template <class T>
std::vector<index_t> largest(const Layout& layout, const std::vector<T>& values) {
  const auto run = [&]<class D>(std::type_identity<D>) {
    Strided<T, D> x(layout, values);
    test::Mirror<index_t, D> y(std::vector<index_t>(static_cast<std::size_t>(layout.rows), -1));
    argmax(test::device<D>(2), x.matrix(), y.vector());
    return y.get();
  };
  const auto found = run(std::type_identity<Cuda>{});
  CHECK(found == run(std::type_identity<Cpu>{}));
  return found;
}

/// Values of which many are the same.
template <class T>
std::vector<T> few_values(index_t n) {
  std::vector<T> x;
  for (const T v : test::numbers<T>(n)) x.push_back(T(std::round(static_cast<float>(v))));
  return x;
}

/// Probabilities of rows, as a teacher gives them.
template <class T>
std::vector<T> probabilities(const Layout& layout, std::uint64_t seed) {
  auto p = test::numbers<T>(layout.elements(), seed);
  const Matrix<T> rows(p.data() + layout.offset, Extents<dyn, dyn>(layout.rows, layout.n), layout.stride());
  evaluate(Cpu{}, softmax_formula(), rows, rows);
  return p;
}

/// All that EAGLE-3's losses of a step are made of, and the gradients of each of them.
template <class S, class D>
std::vector<double> of_a_step(const Layout& layout) {
  const auto& device = test::device<D>(2);
  const auto n = static_cast<std::size_t>(layout.rows);
  Strided<S, D> logits(layout, 1), p(layout, probabilities<S>(layout, 2)), d_logits(layout, 3);
  test::Mirror<S, D> losses(std::vector<S>(n, S(7))), alphas(losses.get()), d_rows(losses.get());
  std::vector<std::uint8_t> marks;
  for (std::size_t r = 0; r < n; ++r) marks.push_back(r % 3 != 1);
  test::Mirror<std::uint8_t, D> counts(marks);
  arena_t<D> scratch(device, TttLoss::scratch_bytes<S>(layout.rows));
  TttLoss::row_losses(device, logits.matrix(), p.matrix(), losses.vector());
  TttLoss::row_alphas(device, logits.matrix(), p.matrix(), alphas.vector());
  auto all = test::as_doubles(losses.get());
  append(all, test::as_doubles(alphas.get()));
  for (const TttLoss loss : {TttLoss{}, TttLoss{.lk = LkLoss::alpha}, TttLoss{.lk = LkLoss::lambda}}) {
    row_adjoints<D, element_t<D, S>>(device, loss.row_adjoint(0.3), counts.vector(), alphas.vector(), d_rows.vector());
    loss.row_gradients(device, logits.matrix(), p.matrix(), 0.4, Vector<const element_t<D, S>>(d_rows.vector()),
                       d_logits.matrix(), scratch);
    append(all, test::as_doubles(d_rows.get())), append(all, d_logits.get());
  }
  return all;
}

/// DSpark's row losses (DFlash's are their first part), and their gradients.
template <class S, class D>
std::vector<double> of_blocks(const Layout& layout) {
  const auto& device = test::device<D>(2);
  const auto n = static_cast<std::size_t>(layout.rows);
  Strided<S, D> logits(layout, 1), p(layout, probabilities<S>(layout, 2)), d_logits(layout, 3);
  test::Mirror<S, D> top(std::vector<S>(n, S(7))), ce(top.get()), distance(top.get()), d(test::numbers<S>(layout.rows));
  std::vector<index_t> tokens;
  for (index_t r = 0; r < layout.rows; ++r) tokens.push_back((r * 5 + 2) % layout.n);
  test::Mirror<index_t, D> labels(tokens);
  using E = element_t<D, S>;
  const Vector<const E> d_rows(d.vector()), largest(top.vector());
  arena_t<D> scratch(device, differentiate_scratch<decltype(dspark_row_formula(0, 0)), S>(layout.rows));
  evaluate_rows(device, row_max_formula(), top.vector(), logits.matrix());
  evaluate_rows(device, log_mass_formula(), ce.vector(), logits.matrix(), top.vector());
  subtract_label(device, logits.matrix(), largest, labels.vector(), ce.vector());
  evaluate_rows(device, distance_formula(), distance.vector(), logits.matrix(), p.matrix(), top.vector());
  differentiate_rows(device, dspark_row_formula(0.1, 0.9), d_rows,
                     gradients(overwrite(d_logits.matrix()), no_gradient, no_gradient), scratch, logits.matrix(),
                     p.matrix(), top.vector());
  subtract_label_backward(device, labels.vector(), 0.1, d_rows, d_logits.matrix());
  auto all = test::as_doubles(ce.get());
  append(all, test::as_doubles(distance.get())), append(all, d_logits.get());
  // The confidence head's, from its logits (the last losses stand for them).
  evaluate(device, acceptance_formula(), distance.vector(), distance.vector());
  evaluate(device, confidence_formula(), top.vector(), ce.vector(), distance.vector());
  differentiate(device, confidence_formula(), d_rows, gradients(overwrite(ce.vector()), no_gradient), scratch,
                ce.vector(), distance.vector());
  append(all, test::as_doubles(top.get())), append(all, test::as_doubles(ce.get()));
  return all;
}

/// The shapes of a vocabulary: one token, a tail, rows apart, and more columns than a warp takes.
template <class F>
void for_vocabularies(F&& f) {
  for (const Layout& layout : {Layout{0, 5}, {1, 1}, {3, 7, 1, 2}, {37, 33}, {4, 1000, 0, 4}, {2, 16388}}) {
    CAPTURE(layout.rows);
    CAPTURE(layout.n);
    f(layout);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("argmax: Cpu's, the first of several, in rows of a warp and of a block", T, float, double,
                   bfloat16) {
  for (const index_t n : {1, 2, 31, 33, 264, 1000, 16384, 16385, 40000}) {
    CAPTURE(n);
    for (const Layout& layout : {Layout{3, n}, Layout{9, n, 1, 3}}) {
      largest(layout, test::numbers<T>(layout.elements()));
      largest(layout, few_values<T>(layout.elements()));
    }
  }
  largest({0, 7}, std::vector<T>());
  // More rows than a grid's second axis has blocks: once, a warp each takes its time.
  if (std::is_same_v<T, bfloat16>) largest({66000, 1}, test::numbers<T>(66000));
}

TEST_CASE_TEMPLATE("argmax: ties, zeros of both signs, infinities, and NaN, which is the largest", T, float, bfloat16) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::vector<float>, index_t>> rows{
      {{-inf, -inf, -inf, -inf}, 0}, {{-inf, -3, -3, -inf}, 1}, {{-0.0f, 0.0f, -1, 0}, 0}, {{1, nan, inf, nan}, 1},
      {{nan, nan, nan, 2}, 0},       {{inf, 1, 2, nan}, 3},     {{-inf, -inf, nan, 5}, 2}, {{1, inf, inf, 3}, 1}};
  std::vector<T> all;
  std::vector<index_t> wanted;
  for (const auto& [row, column] : rows) {
    for (const float v : row) all.push_back(T(v));
    wanted.push_back(column);
  }
  CHECK(largest({8, 4}, all) == wanted);
  // Far apart, in other threads' columns and other warps'.
  for (const index_t n : {1000, 20000}) {
    for (const auto& [row, column] : rows) {
      std::vector<T> wide(static_cast<std::size_t>(n), T(-inf));
      std::vector<index_t> at{0, n / 3, n / 2, n - 1};
      for (std::size_t i = 0; i < 4; ++i) wide[static_cast<std::size_t>(at[i])] = T(row[i]);
      CHECK(largest({1, n}, wide) == std::vector<index_t>{at[static_cast<std::size_t>(column)]});
    }
  }
}

TEST_CASE_TEMPLATE("EAGLE-3's losses and their gradients are Cpu's", S, float, double) {
  if constexpr (compiled<S>) {
    for_vocabularies([](const Layout& layout) {
      check_both([&]<class D>(std::type_identity<D>) { return of_a_step<S, D>(layout); });
    });
  }
}

TEST_CASE_TEMPLATE("the block drafts' losses and their gradients are Cpu's", S, float, double) {
  if constexpr (compiled<S>) {
    for_vocabularies([](const Layout& layout) {
      check_both([&]<class D>(std::type_identity<D>) { return of_blocks<S, D>(layout); });
    });
  }
}

TEST_CASE("adjoints of more rows than a grid's second axis has blocks: what does not count gets none") {
  check_both([]<class D>(std::type_identity<D>) {
    constexpr index_t rows = 66000;
    std::vector<std::uint8_t> marks(rows);
    for (std::size_t r = 0; r < rows; ++r) marks[r] = r % 5 != 2;
    auto rates = test::numbers<float>(rows);
    for (float& a : rates) a = std::abs(a);
    // The smallest normal number has a derivative, one below it has none.
    rates[0] = std::numeric_limits<float>::min(), rates[1] = rates[0] / 2, rates[3] = 0;
    test::Mirror<std::uint8_t, D> counts(marks);
    test::Mirror<float, D> alphas(rates), d(std::vector<float>(rows, 9.0f));
    row_adjoints<D, element_t<D, float>>(test::device<D>(), {0.25, true}, counts.vector(), alphas.vector(), d.vector());
    return d.get();
  });
  test::Mirror<std::uint8_t, Cuda> counts(std::vector<std::uint8_t>{1, 0, 1});
  test::Mirror<double, Cuda> alphas({0.5, 0.5, 0.0}), d({9, 9, 9});
  row_adjoints<Cuda, element_t<Cuda, double>>(test::device<Cuda>(), {2, true}, counts.vector(), alphas.vector(),
                                              d.vector());
  CHECK(d.get() == std::vector<double>{-4, 0, 0});
}

TEST_CASE("a label that is no column: NaN for its row, no gradient, and synchronize names the first such row") {
  using T = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  for (const index_t wrong : {-1, 3}) {
    test::Mirror<index_t, Cuda> labels(std::vector<index_t>{2, wrong, wrong, 0});
    test::Mirror<float, Cuda> x(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), top({3, 6, 9, 12});
    test::Mirror<float, Cuda> losses({1, 1, 1, 1}), d({1, 2, 3, 4});
    const Vector<const T> largest(top.vector()), d_rows(d.vector());
    subtract_label(cuda, x.matrix(3), largest, labels.vector(), losses.vector());
    CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 1"), Error);
    CHECK(test::same_bits(losses.get(), {1, NAN, NAN, 3}));
    subtract_label_backward(cuda, labels.vector(), 0.5, d_rows, x.matrix(3));
    CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 1"), Error);
    CHECK(x.get() == std::vector<float>{1, 2, 2.5, 4, 5, 6, 7, 8, 9, 8, 11, 12});
  }
}

TEST_CASE("losses: one launch each, without a wait, and none for nothing") {
  using T = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> x(std::vector<float>(6)), y(std::vector<float>(2));
  test::Mirror<index_t, Cuda> ids(std::vector<index_t>(2));
  test::Mirror<std::uint8_t, Cuda> marks(std::vector<std::uint8_t>(2));
  for (const index_t n : {2, 0}) {
    const auto logits = x.matrix(3).rows(0, n);
    const auto row = y.vector().rows(0, n);
    const auto labels = ids.vector().rows(0, n);
    const long wanted = n == 0 ? 0 : 1;
    test::check_launches(wanted, [&] { argmax(cuda, logits, labels); });
    test::check_launches(wanted, [&] { subtract_label(cuda, logits, Vector<const T>(row), labels, row); });
    test::check_launches(wanted, [&] { subtract_label_backward(cuda, labels, 1, Vector<const T>(row), logits); });
    test::check_launches(
        wanted, [&] { row_adjoints<Cuda, T>(cuda, {1}, marks.vector().rows(0, n), Vector<const T>(row), row); });
  }
}

TEST_CASE("losses: host memory is refused") {
  using T = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  std::vector<float> memory(4);
  std::vector<index_t> tokens(2);
  std::vector<std::uint8_t> bytes(2);
  test::Mirror<float, Cuda> x(memory), y(std::vector<float>(2));
  test::Mirror<index_t, Cuda> ids(tokens);
  test::Mirror<std::uint8_t, Cuda> marks(bytes);
  const auto host = test::taken_for_the_cards(Matrix<float>(memory.data(), 2, 2));
  const Vector<T> host_row(host.data(), 2);
  const auto host_ids = test::taken_for_the_cards(Vector<index_t>(tokens.data(), 2));
  const auto host_marks = test::taken_for_the_cards(Vector<std::uint8_t>(bytes.data(), 2));
  const auto refuses = [](const char* what, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), (std::string(what) + ": found host memory, wanted device memory").c_str(), Error);
  };
  refuses("argmax: x", [&] { argmax(cuda, host, ids.vector()); });
  refuses("argmax: y", [&] { argmax(cuda, x.matrix(2), host_ids); });
  const auto subtract = [&](auto logits, Vector<const T> top, auto labels, Vector<T> losses) {
    subtract_label(cuda, logits, top, labels, losses);
  };
  refuses("subtract_label: x", [&] { subtract(host, y.vector(), ids.vector(), y.vector()); });
  refuses("subtract_label: largest", [&] { subtract(x.matrix(2), host_row, ids.vector(), y.vector()); });
  refuses("subtract_label: labels", [&] { subtract(x.matrix(2), y.vector(), host_ids, y.vector()); });
  refuses("subtract_label: losses", [&] { subtract(x.matrix(2), y.vector(), ids.vector(), host_row); });
  const auto back = [&](auto labels, Vector<const T> d, auto d_x) {
    subtract_label_backward(cuda, labels, 1.0, d, d_x);
  };
  refuses("subtract_label_backward: labels", [&] { back(host_ids, y.vector(), x.matrix(2)); });
  refuses("subtract_label_backward: d_losses", [&] { back(ids.vector(), host_row, x.matrix(2)); });
  refuses("subtract_label_backward: d_x", [&] { back(ids.vector(), y.vector(), host); });
  const auto adjoints = [&](auto counts, Vector<const T> alphas, Vector<T> d) {
    row_adjoints<Cuda, T>(cuda, {1}, counts, alphas, d);
  };
  refuses("row_adjoints: counts", [&] { adjoints(host_marks, y.vector(), y.vector()); });
  refuses("row_adjoints: alphas", [&] { adjoints(marks.vector(), host_row, y.vector()); });
  refuses("row_adjoints: d_rows", [&] { adjoints(marks.vector(), y.vector(), host_row); });
}
