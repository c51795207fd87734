// Products on Cuda: row-major matrices of all transposes, distances, types and batches come out as on Cpu.
#include <doctest/doctest.h>

#include <cmath>

#include <tests/cuda/device.hpp>
#include <tests/laws/laws.hpp>

using namespace k3spec;

namespace {

/// A standard normal value with all its bits: a float is no bfloat16 by chance.
double normal(std::uint64_t seed, index_t row, index_t column) {
  return Philox(seed, static_cast<std::uint64_t>(row)).normal(static_cast<std::uint64_t>(column));
}

/// A matrix in memory whose rows are `gap` elements further apart than they are long, NaN between them.
template <class T, class D>
struct Spread {
  index_t rows, columns, gap;
  test::Mirror<T, D> memory;

  /// \param spare  elements after the last row
  Spread(index_t r, index_t c, index_t g, std::uint64_t seed, index_t spare = 0) : rows(r), columns(c), gap(g) {
    std::vector<T> values(static_cast<std::size_t>(r * (c + g) + spare), T(accumulate_t<T>(NAN)));
    for (index_t i = 0; i < r; ++i) {
      for (index_t j = 0; j < c; ++j) {
        values[static_cast<std::size_t>(i * (c + g) + j)] = T(static_cast<accumulate_t<T>>(normal(seed, i, j)));
      }
    }
    memory = test::Mirror<T, D>(values);
  }
  Matrix<element_t<D, T>> view() {
    return Matrix<element_t<D, T>>(memory.vector().data(), Extents<dyn, dyn>(rows, columns), columns + gap);
  }
  std::vector<double> values() {
    const auto all = memory.get();
    std::vector<double> out;
    for (index_t i = 0; i < rows * (columns + gap); ++i) {
      if (i % (columns + gap) < columns) out.push_back(static_cast<double>(all[static_cast<std::size_t>(i)]));
    }
    return out;
  }
};

struct Case {
  index_t m, n, k;
  Op op_a, op_b;
  Into into;
};

template <class TA, class TB, class TC, class D>
std::vector<double> product(const Case& c, index_t gap) {
  const bool a_t = c.op_a == Op::transposed, b_t = c.op_b == Op::transposed;
  Spread<TA, D> a(a_t ? c.k : c.m, a_t ? c.m : c.k, gap, 1);
  Spread<TB, D> b(b_t ? c.n : c.k, b_t ? c.k : c.n, gap == 0 ? 0 : gap + 1, 2);
  Spread<TC, D> out(c.m, c.n, gap == 0 ? 0 : gap + 2, 3);
  gemm(test::device<D>(), a.view(), c.op_a, b.view(), c.op_b, out.view(), c.into);
  return out.values();
}

template <class F>
void for_cases(index_t m, index_t n, index_t k, F&& f) {
  for (const Op op_a : {Op::plain, Op::transposed}) {
    for (const Op op_b : {Op::plain, Op::transposed}) {
      for (const Into into : {Into::overwrite, Into::accumulate}) f(Case{m, n, k, op_a, op_b, into});
    }
  }
}

/// What the order of a sum of k products may change. Partial sums are near √k, a rounding moves one by at most half an
/// epsilon of that, and of up to 4k + 6 roundings (three parts on one side, one sum on the other) the root counts, as
/// their signs are chance: four times that. A lost low part of a split, 2⁻¹⁷ of each product, is several times as much.
template <class T>
double tolerance(index_t k) {
  const auto terms = static_cast<double>(k);
  const double half = static_cast<double>(std::numeric_limits<accumulate_t<T>>::epsilon()) / 2;
  return 4 * half * std::sqrt(4 * terms + 6) * (std::sqrt(terms) + 1);
}

template <class TA, class TB, class TC>
void check_all(index_t m, index_t n, index_t k, double last_rounding = 0) {
  for_cases(m, n, k, [&](const Case& c) {
    for (const index_t gap : {0, 3}) {
      const auto found = product<TA, TB, TC, Cuda>(c, gap), wanted = product<TA, TB, TC, Cpu>(c, gap);
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      CAPTURE(gap);
      CAPTURE(c.op_a == Op::plain);
      CAPTURE(c.op_b == Op::plain);
      REQUIRE(found.size() == wanted.size());
      double error = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        error = std::max(error, std::abs(found[i] - wanted[i]) - last_rounding * std::abs(wanted[i]));
      }
      CHECK(error <= tolerance<TC>(k));
    }
  });
}

}  // namespace

TEST_CASE("gemm on Cuda: all transposes, 2 x 3 x 5 and odd sizes, rows of any distance") {
  check_all<double, double, double>(2, 3, 5);
  check_all<float, float, float>(2, 3, 5);
  check_all<bfloat16, bfloat16, float>(2, 3, 5);
  check_all<bfloat16, bfloat16, bfloat16>(2, 3, 5, 0x1p-8);
  for (const auto& [m, n, k] : {std::array<index_t, 3>{1, 1, 1}, {1, 7, 32}, {33, 1, 7}, {7, 33, 1}, {31, 32, 33}}) {
    check_all<double, double, double>(m, n, k);
    check_all<float, float, float>(m, n, k);
    check_all<bfloat16, bfloat16, float>(m, n, k);
  }
}

TEST_CASE("gemm on Cuda: float with bfloat16 loses nothing of float, whatever panels it takes") {
  // 6000 bytes of panels: 27 rows of 32 elements, so that 70 rows take three.
  for (const auto& [m, n, k] :
       {std::array<index_t, 3>{2, 3, 5}, {1, 1, 1}, {70, 33, 31}, {31, 70, 33}, {33, 31, 70}, {70, 70, 70}}) {
    check_all<float, bfloat16, float>(m, n, k);
    check_all<bfloat16, float, float>(m, n, k);
  }
}

TEST_CASE("a float is the exact sum of its three bfloat16 parts") {
  std::vector<float> x{1.0f / 3, -2.7182817f, 1e30f, 1e-30f, 16777215.0f, -0.0f, 0.0f, 3.0e38f};
  for (int i = 0; i < 1000; ++i)
    x.push_back(static_cast<float>(laws::draw(5, 0, i)) + static_cast<float>(laws::draw(6, 0, i)) * 1e-4f);
  test::Mirror<float, Cuda> on_device(x);
  const auto n = static_cast<index_t>(x.size());
  const cuda::SplitPanel panel(test::device<Cuda>(), Matrix<float>(bare(on_device.vector().data()), 1, 900).rows(0, 1));
  std::vector<double> sum(900, 0.0);
  for (const auto& part : panel.parts()) {
    std::vector<bfloat16> values(900);
    // The parts are the panel's bare memory.
    auto* const on_card = reinterpret_cast<element_t<Cuda, bfloat16>*>(part.data());
    download<bfloat16>(test::device<Cuda>(), Vector<element_t<Cuda, bfloat16>>(on_card, 900),
                       Vector<bfloat16>(values.data(), 900));
    for (std::size_t i = 0; i < 900; ++i) sum[i] += static_cast<double>(static_cast<float>(values[i]));
  }
  CHECK(n > 900);
  for (std::size_t i = 0; i < 900; ++i) CHECK(sum[i] == static_cast<double>(x[i]));
}

TEST_CASE("sums of nothing, and products without rows or columns") {
  using OnCard = element_t<Cuda, float>;
  test::Mirror<float, Cuda> c(std::vector<float>{1, 2, 3, 4, 5, 6});
  const Cuda& device = test::device<Cuda>();
  const auto out = Matrix<OnCard>(c.vector().data(), 2, 3);
  const Matrix<OnCard> a(nullptr, 2, 0), b(nullptr, 0, 3);
  gemm(device, a, Op::plain, b, Op::plain, out, Into::accumulate);
  CHECK(c.get() == std::vector<float>{1, 2, 3, 4, 5, 6});
  gemm(device, a, Op::plain, b, Op::plain, out);
  CHECK(c.get() == std::vector<float>(6, 0.0f));
  gemm(device, Matrix<OnCard>(nullptr, 0, 2), Op::plain, out, Op::plain, Matrix<OnCard>(nullptr, 0, 3));
}

TEST_CASE("a batch on Cuda: matrices one after another, and heads beside each other") {
  constexpr index_t heads = 3, m = 2, n = 4, k = 5;
  const auto run = [&]<class D>(std::type_identity<D>, Into into) {
    Spread<double, D> q(m, heads * k, 2, 1), kv(n, heads * k, 0, 2), scores(heads * m, n, 0, 3);
    const auto c = batch(View<element_t<D, double>, dyn, dyn, dyn>(scores.memory.vector().data(), heads, m, n));
    gemm_batch(test::device<D>(), head_batch(q.view(), heads), Op::plain, head_batch(kv.view(), heads), Op::transposed,
               c, into);
    return scores.values();
  };
  for (const Into into : {Into::overwrite, Into::accumulate}) {
    const auto found = run(std::type_identity<Cuda>{}, into), wanted = run(std::type_identity<Cpu>{}, into);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-14));
  }
  // Three distances from matrix to matrix.
  const auto apart = [&]<class D>(std::type_identity<D>) {
    Spread<double, D> q(heads * m, k, 0, 1), kv(n, heads * k, 0, 2), scores(m, heads * n, 1, 3);
    const auto a = batch(View<element_t<D, double>, dyn, dyn, dyn>(q.memory.vector().data(), heads, m, k));
    gemm_batch(test::device<D>(), a, Op::plain, head_batch(kv.view(), heads), Op::transposed,
               head_batch(scores.view(), heads));
    return scores.values();
  };
  const auto found = apart(std::type_identity<Cuda>{}), wanted = apart(std::type_identity<Cpu>{});
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-14));
}

TEST_CASE("rows, columns and inner parts of bigger matrices") {
  const auto run = [&]<class T, class D>(std::type_identity<T>, std::type_identity<D>, const Case& c) {
    const bool a_t = c.op_a == Op::transposed, b_t = c.op_b == Op::transposed;
    Spread<float, D> a(9, 9, 0, 1);
    Spread<T, D> b(9, 9, 1, 2);
    Spread<float, D> out(9, 9, 2, 3);
    const auto part = [](auto& s, index_t rows, index_t columns) { return s.view().rows(2, rows).columns(1, columns); };
    gemm(test::device<D>(), part(a, a_t ? c.k : c.m, a_t ? c.m : c.k), c.op_a,
         part(b, b_t ? c.n : c.k, b_t ? c.k : c.n), c.op_b, part(out, c.m, c.n), c.into);
    return out.values();
  };
  const auto check = [&]<class T>(std::type_identity<T> type, const Case& c) {
    const auto found = run(type, std::type_identity<Cuda>{}, c), wanted = run(type, std::type_identity<Cpu>{}, c);
    double error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) error = std::max(error, std::abs(found[i] - wanted[i]));
    CHECK(error <= tolerance<float>(c.k) * std::sqrt(static_cast<double>(c.k + 1)));
  };
  for (const auto& [m, n, k] :
       {std::array<index_t, 3>{1, 1, 1}, {1, 5, 7}, {5, 1, 7}, {5, 7, 1}, {1, 1, 7}, {7, 6, 5}, {7, 6, 0}}) {
    for_cases(m, n, k, [&](const Case& c) {
      check(std::type_identity<float>{}, c);
      check(std::type_identity<bfloat16>{}, c);
    });
  }
}

TEST_CASE("the distance of a single row to the next means nothing") {
  const Cuda& device = test::device<Cuda>();
  test::Mirror<float, Cuda> a(std::vector<float>{1, 2, 3}), b(std::vector<float>{4, 5, 6}), c(std::vector<float>(9));
  for (const index_t distance : {0, 1, 3, 1000}) {
    const auto row = [&](auto& m, index_t n) {
      return Matrix<element_t<Cuda, float>>(m.vector().data(), Extents<dyn, dyn>(1, n), distance);
    };
    gemm(device, row(a, 3), Op::plain, row(b, 3), Op::transposed, row(c, 1));
    CHECK(c.get()[0] == 32);
    gemm(device, row(a, 3), Op::transposed, row(b, 3), Op::plain, c.matrix(3));
    CHECK(c.get() == std::vector<float>{4, 5, 6, 8, 10, 12, 12, 15, 18});
    gemm(device, row(a, 1), Op::plain, row(b, 3), Op::plain, row(c, 3), Into::accumulate);
    CHECK(c.get() == std::vector<float>{8, 10, 12, 8, 10, 12, 12, 15, 18});
  }
}

TEST_CASE("panels of exactly one row, and two products after one another in the same panel") {
  // 6000 bytes: three times 936 elements and what keeps the parts apart.
  check_all<float, bfloat16, float>(3, 2, 936);
  check_all<bfloat16, float, float>(2, 3, 936);
  const auto run = [&]<class D>(std::type_identity<D>) {
    const auto& device = test::device<D>();
    Spread<float, D> a(40, 40, 0, 1), other(40, 40, 0, 4), c(40, 40, 0, 3);
    Spread<bfloat16, D> b(40, 40, 0, 2);
    gemm(device, a.view(), Op::plain, b.view(), Op::plain, c.view());
    gemm(device, other.view(), Op::transposed, b.view(), Op::transposed, c.view(), Into::accumulate);
    gemm(device, b.view(), Op::plain, a.view(), Op::transposed, c.view(), Into::accumulate);
    return c.values();
  };
  const auto found = run(std::type_identity<Cuda>{}), wanted = run(std::type_identity<Cpu>{});
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) <= tolerance<float>(120) * 11);
}

TEST_CASE("planted: a swapped leading dimension, operands that are not changed about, and a lost transpose are seen") {
  // What a wrong mapping would ask cuBLAS for, against the right product.
  const Cuda& device = test::device<Cuda>();
  for_cases(2, 3, 5, [&](const Case& c) {
    if (c.into == Into::accumulate) return;
    const bool a_t = c.op_a == Op::transposed, b_t = c.op_b == Op::transposed;
    const auto wanted = product<double, double, double, Cpu>(c, 0);
    const auto differs = [&](auto&& multiply) {
      Spread<double, Cuda> a(a_t ? 5 : 2, a_t ? 2 : 5, 0, 1, 99), b(b_t ? 3 : 5, b_t ? 5 : 3, 1, 2, 99),
          out(2, 3, 0, 3, 99);
      const auto as_batch = [](const auto& v) { return cuda::single(Matrix<const double>(bare(v))); };
      try {
        multiply(as_batch(a.view()), as_batch(b.view()), cuda::single(bare(out.view())));
        device.synchronize();
        return out.values() != wanted;
      } catch (const CudaError&) {
        return true;
      }
    };
    const ProductShape shape{2, 3, 5};
    using Factor = cuda::Factor<MatrixBatch<const double>>;
    CHECK_FALSE(differs([&](auto a, auto b, auto out) {
      cuda::multiply(device, shape, Factor{a, c.op_a}, Factor{b, c.op_b}, out, false);
    }));
    CHECK(differs([&](auto a, auto b, auto out) {
      std::swap(a.row_stride, b.row_stride);
      a.columns = b.columns = 0;  // only the distance counts
      cuda::multiply(device, shape, Factor{a, c.op_a}, Factor{b, c.op_b}, out, false);
    }));
    CHECK(differs([&](auto a, auto b, auto out) {
      cuda::multiply(device, shape, Factor{b, c.op_b}, Factor{a, c.op_a}, out, false);
    }));
    CHECK(differs([&](auto a, auto b, auto out) {
      cuda::multiply(device, shape, Factor{a, a_t ? Op::plain : Op::transposed}, Factor{b, c.op_b}, out, false);
    }));
  });
}

TEST_CASE("what does not fit is refused by name") {
  const Cuda& device = test::device<Cuda>();
  Spread<float, Cuda> a(2, 5, 0, 1), b(4, 3, 0, 2), c(2, 3, 0, 3);
  CHECK_THROWS_WITH_AS(gemm(device, a.view(), Op::plain, b.view(), Op::plain, c.view()),
                       "gemm: rows of op(B): found 4, wanted 5", Error);
  std::vector<float> host(6);
  const auto on_host = test::taken_for_the_cards(Matrix<float>(host.data(), 5, 5));
  CHECK_THROWS_WITH_AS(gemm(device, a.view(), Op::transposed, a.view(), Op::plain, on_host),
                       "gemm: C: found host memory, wanted device memory", Error);
  Spread<float, Cuda> wide(1, 2000, 0, 1);
  Spread<bfloat16, Cuda> narrow(2000, 1, 0, 1);
  CHECK_THROWS_WITH_AS(
      gemm(device, wide.view(), Op::plain, narrow.view(), Op::plain, c.view().rows(0, 1).columns(0, 1)),
      doctest::Contains("gemm: panel workspace: found 6000 bytes"), Error);
}
