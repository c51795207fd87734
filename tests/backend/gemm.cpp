#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/core/rng.hpp>

#include "tests/backend/allocations.hpp"

using namespace k3spec;

namespace {

/// A matrix in memory of its own whose rows lie `gap` elements further apart than they are long.
template <class T>
struct Stored {
  std::vector<T> memory;
  index_t rows, columns, stride;

  Stored(index_t r, index_t c, index_t gap, std::uint64_t seed) : rows(r), columns(c), stride(c + gap) {
    const Philox random(seed, 1);
    for (index_t i = 0; i < rows * stride; ++i) {
      memory.push_back(static_cast<T>(static_cast<float>(random.normal(static_cast<std::uint64_t>(i)))));
    }
  }
  Matrix<T> view() { return {memory.data(), Extents<dyn, dyn>(rows, columns), stride}; }
  Matrix<const T> view() const { return {memory.data(), Extents<dyn, dyn>(rows, columns), stride}; }
};

/// The contract, word for word.
template <class TA, class TB, class TC>
void naive(Matrix<const TA> a, Op op_a, Matrix<const TB> b, Op op_b, Matrix<TC> c, Into into) {
  using S = accumulate_t<TC>;
  const index_t k = a.extent(op_a == Op::plain ? 1 : 0);
  for (index_t i = 0; i < c.extent(0); ++i) {
    for (index_t j = 0; j < c.extent(1); ++j) {
      S sum = into == Into::accumulate ? static_cast<S>(c(i, j)) : S{0};
      for (index_t p = 0; p < k; ++p) {
        const S x = static_cast<S>(op_a == Op::plain ? a(i, p) : a(p, i));
        const S y = static_cast<S>(op_b == Op::plain ? b(p, j) : b(j, p));
        sum = std::fma(x, y, sum);
      }
      c(i, j) = static_cast<TC>(sum);
    }
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

struct Shape {
  index_t m, n, k;
};

/// One product against the naive one, the elements between the rows of C included: they must not change.
template <class TA, class TB, class TC>
bool equals_naive(Shape s, Op op_a, Op op_b, Into into, int threads, index_t gap) {
  const bool a_t = op_a == Op::transposed, b_t = op_b == Op::transposed;
  const Stored<TA> a(a_t ? s.k : s.m, a_t ? s.m : s.k, gap, 1);
  const Stored<TB> b(b_t ? s.n : s.k, b_t ? s.k : s.n, 2 * gap, 2);
  Stored<TC> found(s.m, s.n, 3 * gap, 3);
  Stored<TC> wanted = found;
  gemm(Cpu{threads}, a.view(), op_a, b.view(), op_b, found.view(), into);
  naive(a.view(), op_a, b.view(), op_b, wanted.view(), into);
  return same_bits(found.memory, wanted.memory);
}

template <class TA, class TB, class TC>
void check_shapes(const std::vector<Shape>& shapes, int threads) {
  for (const Shape& s : shapes) {
    for (Op op_a : {Op::plain, Op::transposed}) {
      for (Op op_b : {Op::plain, Op::transposed}) {
        for (Into into : {Into::overwrite, Into::accumulate}) {
          for (index_t gap : {index_t{0}, s.n % 6}) {
            const bool equal = equals_naive<TA, TB, TC>(s, op_a, op_b, into, threads, gap);
            CHECK_MESSAGE(equal, s.m << " x " << s.n << " x " << s.k << ", ops " << static_cast<int>(op_a)
                                     << static_cast<int>(op_b) << ", into " << static_cast<int>(into) << ", gap " << gap
                                     << ", threads " << threads);
          }
        }
      }
    }
  }
}

template <class A, class B, class C>
struct Types {
  using TA = A;
  using TB = B;
  using TC = C;
};

// Sizes around tiles and panels, few and many rows, one and several blocks of k, nothing at all.
const std::vector<Shape> shapes{{1, 1, 1},     {1, 17, 3},  {2, 70, 7},   {7, 5, 1},    {8, 8, 8},    {13, 31, 29},
                                {33, 1, 65},   {37, 47, 5}, {70, 70, 70}, {1, 70, 300}, {5, 33, 513}, {41, 23, 600},
                                {64, 16, 257}, {0, 4, 4},   {4, 0, 4},    {4, 5, 0},    {40, 5, 0},   {100, 49, 33}};

}  // namespace

TEST_CASE_TEMPLATE("gemm equals one fma chain per element in every bit", T, Types<float, float, float>,
                   Types<double, double, double>, Types<bfloat16, bfloat16, bfloat16>, Types<bfloat16, float, float>,
                   Types<float, bfloat16, bfloat16>, Types<float, bfloat16, float>, Types<bfloat16, bfloat16, float>,
                   Types<float, float, double>) {
  check_shapes<typename T::TA, typename T::TB, typename T::TC>(shapes, 1);
  check_shapes<typename T::TA, typename T::TB, typename T::TC>({{70, 70, 70}, {3, 65, 300}}, 2);
}

TEST_CASE("all sorts of small sizes") {
  for (index_t m = 1; m <= 70; m += 3) {
    for (index_t n = 1; n <= 70; n += 4) {
      const Shape s{m, n, (m * 7 + n * 3) % 71};
      CHECK(equals_naive<float, float, float>(s, Op::plain, Op::transposed, Into::overwrite, 1, n % 3));
      CHECK(equals_naive<float, float, float>(s, Op::transposed, Op::plain, Into::accumulate, 1, m % 3));
    }
  }
}

TEST_CASE("large products: any number of threads, several blocks of every axis") {
  for (int threads : {1, 2, 3, 8}) {
    for (Shape s : {Shape{300, 70, 530}, Shape{33, 1100, 300}, Shape{9, 1100, 300}, Shape{700, 16, 270}}) {
      CHECK(equals_naive<float, float, float>(s, Op::plain, Op::transposed, Into::accumulate, threads, 1));
      CHECK(equals_naive<float, float, float>(s, Op::transposed, Op::plain, Into::overwrite, threads, 0));
      CHECK(equals_naive<bfloat16, float, bfloat16>(s, Op::plain, Op::plain, Into::accumulate, threads, 3));
    }
  }
}

TEST_CASE("rows alone equal rows together") {
  const index_t m = 67, n = 50, k = 300;
  const Stored<float> a(m, k, 0, 1), b(n, k, 0, 2);
  Stored<float> all(m, n, 0, 3), some(m, n, 0, 4);
  gemm(Cpu{2}, a.view(), Op::plain, b.view(), Op::transposed, all.view());
  for (index_t count : {1, 4, 7, 40}) {
    for (index_t i = 0; i < m; i += count) {
      const index_t rows = std::min(count, m - i);
      gemm(Cpu{1}, a.view().rows(i, rows), Op::plain, b.view(), Op::transposed, some.view().rows(i, rows));
    }
    CHECK(same_bits(all.memory, some.memory));
  }
}

TEST_CASE("views of static extents and column slices need no conversion") {
  std::vector<float> x(6 * 8, 0.5f), w(4 * 8, 2.0f), y(6 * 4);
  const Rows<const float, 8> rows(x.data(), 6);
  const View<float, 4, 8> weights(w.data());
  gemm(Cpu{1}, rows, Op::plain, weights, Op::transposed, Rows<float, 4>(y.data(), 6));
  CHECK(y == std::vector<float>(6 * 4, 8.0f));
  gemm(Cpu{1}, rows.columns<2, 3>(), Op::plain, weights.columns(0, 3), Op::transposed, Rows<float, 4>(y.data(), 6));
  CHECK(y == std::vector<float>(6 * 4, 3.0f));
}

TEST_CASE("shapes that do not fit are refused by name") {
  std::vector<float> memory(100);
  const Matrix<float> a(memory.data(), 2, 3), b(memory.data() + 10, 3, 4), c(memory.data() + 50, 2, 4);
  CHECK_THROWS_WITH_AS(gemm(Cpu{1}, a, Op::transposed, b, Op::plain, c), "gemm: rows of op(A): found 3, wanted 2",
                       Error);
  CHECK_THROWS_WITH_AS(gemm(Cpu{1}, a, Op::plain, b, Op::transposed, c), "gemm: rows of op(B): found 4, wanted 3",
                       Error);
  CHECK_THROWS_WITH_AS(gemm(Cpu{1}, a, Op::plain, b.columns(0, 3), Op::plain, c),
                       "gemm: columns of op(B): found 3, wanted 4", Error);
}

TEST_CASE("a product whose ops are known when compiling has the same bits, and refuses what its types do not say") {
  const Stored<float> a(5, 7, 0, 1), a_t(7, 5, 1, 2), b(7, 3, 0, 3), b_t(3, 7, 2, 4);
  Stored<float> c(5, 3, 1, 5), d(5, 3, 1, 5);
  const auto same = [&]<Op op_a, Op op_b>(const auto& x, const auto& y, Into into) {
    gemm(Cpu{1}, x, op_a, y, op_b, c.view(), into);
    gemm<op_a, op_b>(Cpu{1}, x, y, d.view(), into);
    return same_bits(c.memory, d.memory);
  };
  for (const Into into : {Into::overwrite, Into::accumulate, Into::nothing}) {
    CHECK(same.template operator()<Op::plain, Op::plain>(a.view(), b.view(), into));
    CHECK(same.template operator()<Op::plain, Op::transposed>(a.view(), b_t.view(), into));
    CHECK(same.template operator()<Op::transposed, Op::plain>(a_t.view(), b.view(), into));
    CHECK(same.template operator()<Op::transposed, Op::transposed>(a_t.view(), b_t.view(), into));
  }
  const Rows<const float, 7> rows(a.memory.data(), 5);
  CHECK_THROWS_WITH_AS((gemm<Op::plain, Op::plain>(Cpu{1}, rows, b.view(), Rows<float, 3>(c.memory.data(), 4))),
                       "gemm: rows of op(A): found 5, wanted 4", Error);
}

TEST_CASE("infinities and NaNs go where the chain takes them, and nowhere else") {
  Stored<float> a(9, 20, 0, 1), b(33, 20, 0, 2);
  a.memory[4 * 20 + 3] = INFINITY;
  b.memory[32 * 20 + 19] = NAN;
  Stored<float> c(9, 33, 0, 3);
  gemm(Cpu{1}, a.view(), Op::plain, b.view(), Op::transposed, c.view());
  for (index_t i = 0; i < 9; ++i) {
    for (index_t j = 0; j < 33; ++j) CHECK(std::isfinite(c.view()(i, j)) == (i != 4 && j != 32));
  }
}

TEST_CASE("once warm, a product allocates nothing; inside a parallel loop it runs on one thread") {
  const Stored<float> a(200, 300, 0, 1), b(90, 300, 0, 2);
  Stored<float> c(200, 90, 0, 3), d(200, 90, 0, 3);
  const auto all = [&] {
    gemm(Cpu{2}, a.view(), Op::plain, b.view(), Op::transposed, c.view());
    gemm(Cpu{1}, a.view().rows(0, 3), Op::plain, b.view(), Op::transposed, c.view().rows(0, 3));
    for (index_t i = 0; i < 8; ++i) {
      gemm(Cpu{1}, a.view().rows(25 * i, 25), Op::plain, b.view(), Op::transposed, d.view().rows(25 * i, 25));
    }
  };
  all();
  const long before = allocations();
  all();
  CHECK(allocations() == before);
  Stored<float> e(200, 90, 0, 3);
  parallel_for(Cpu{2}, 8, [&](index_t i) {
    gemm(Cpu{2}, a.view().rows(25 * i, 25), Op::plain, b.view(), Op::transposed, e.view().rows(25 * i, 25));
  });
  CHECK(same_bits(d.memory, e.memory));
}

namespace {

template <class TA, class T, class TC>
bool packed_equals_plain(Shape s, Into into, int threads) {
  const Stored<TA> a(s.m, s.k, 3, 1);
  const Stored<T> w(s.n, s.k, 2, 2);
  Stored<TC> found(s.m, s.n, 1, 3);
  Stored<TC> wanted = found;
  const PrepackedWeights<T> packed(w.view());
  gemm(Cpu{threads}, a.view(), packed, found.view(), into);
  gemm(Cpu{1}, a.view(), Op::plain, w.view(), Op::transposed, wanted.view(), into);
  return same_bits(found.memory, wanted.memory);
}

}  // namespace

TEST_CASE_TEMPLATE("packed weights give the same bits", T, Types<float, float, float>, Types<double, double, double>,
                   Types<bfloat16, bfloat16, bfloat16>, Types<float, bfloat16, float>) {
  const auto equal = packed_equals_plain<typename T::TA, typename T::TB, typename T::TC>;
  for (const Shape& s : shapes) {
    CHECK(equal(s, Into::overwrite, 1));
    CHECK(equal(s, Into::accumulate, 2));
  }
  for (index_t m = 1; m <= 9; ++m) CHECK(equal({m, 531, 270}, Into::overwrite, 2));
  CHECK(equal({300, 531, 270}, Into::accumulate, 2));
}

TEST_CASE("packed weights say what they hold, and refuse what does not fit") {
  constexpr index_t w = Packet<float>::width;
  static_assert(PrepackedWeights<float>::bytes(w + 1, 10) == 2 * w * 10 * 4);
  static_assert(PrepackedWeights<bfloat16>::bytes(w, 10) == w * 10 * 2);
  const Stored<float> weights(5, 7, 0, 1), x(3, 6, 0, 2), x7(3, 7, 0, 2);
  Stored<float> y(3, 5, 0, 3), y4(3, 4, 0, 3);
  const PrepackedWeights<float> packed(weights.view());
  CHECK(packed.bytes() == PrepackedWeights<float>::bytes(5, 7));
  CHECK_THROWS_WITH_AS(gemm(Cpu{1}, x.view(), packed, y.view()), "gemm: columns of A: found 6, wanted 7", Error);
  CHECK_THROWS_WITH_AS(gemm(Cpu{1}, x7.view(), packed, y4.view()),
                       "gemm: prepacked weights' outputs: found 5, wanted 4", Error);
}
