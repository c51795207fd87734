// Shapes, addresses and aliases at the edge: Cuda makes of them what Cpu makes of them, in bits.
#include <tests/cuda/both_devices.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/optimiser/gradient_norm.hpp>

using namespace k3spec;
using test::check_both;
using test::numbers;

namespace {

constexpr auto x0 = expr::arg<0>;
constexpr auto x1 = expr::arg<1>;

}  // namespace

TEST_CASE("one operand read in two ways: as a column and as a row, too") {
  for (const index_t n : {1, 3, 32, 33, 260}) {
    check_both([&]<class D>(std::type_identity<D>) {
      const auto& device = test::device<D>();
      test::Mirror<float, D> v(numbers<float>(n)), y(std::vector<float>(static_cast<std::size_t>(n * n))), z(y.get());
      evaluate(device, expr::column<0> - expr::row<0> * 2.0, y.matrix(n), v.vector());
      evaluate(device, formulas(expr::column<0> + 1.0, expr::row<0> + 1.0), outputs(y.matrix(n), z.matrix(n)),
               v.vector());
      evaluate(device, x1 + row_sum(expr::column<0> * x1) * expr::row<0>, y.matrix(n), v.vector(), z.matrix(n));
      arena_t<D> scratch(device, differentiate_scratch<decltype(x1 * (expr::column<0> + expr::row<0>)), float>(n));
      differentiate(device, x1 * (expr::column<0> + expr::row<0>), y.matrix(n),
                    gradients(no_gradient, overwrite(z.matrix(n))), scratch, v.vector(), z.matrix(n));
      auto all = y.get();
      for (const float d : z.get()) all.push_back(d);
      return all;
    });
    check_both([&]<class D>(std::type_identity<D>) {
      const auto& device = test::device<D>();
      test::Mirror<float, D> v(numbers<float>(n)), d_v(v.get()), y(numbers<float>(n, 2));
      arena_t<D> scratch(device, 0);
      differentiate(device, x0 * expr::column<0>, y.vector(), gradients(accumulate(d_v.vector())), scratch, v.vector());
      return d_v.get();
    });
  }
}

TEST_CASE("an empty view at the end of a buffer is device memory as much as any other") {
  using T = element_t<Cuda, float>;
  const Cuda& cuda = test::device<Cuda>();
  for (const index_t n : {16, 1024, 1 << 20}) {
    CudaArena arena(cuda, static_cast<std::size_t>(n) * sizeof(float));
    const Vector<T> x(arena.take<T>(n), n), end(x.data() + n, 0);
    const Matrix<T> no_rows(end.data(), 0, 4), no_columns(end.data(), 4, 0), some(x.data(), 4, 4);
    const Vector<element_t<Cuda, index_t>> ids(reinterpret_cast<element_t<Cuda, index_t>*>(end.data()), 0);
    evaluate(cuda, x0 * 2.0, end, end);
    evaluate_rows(cuda, row_sum(x0), end, no_rows);
    evaluate_rows(cuda, row_sum(x0), Vector<T>(x.data(), 4), no_columns);
    CudaArena scratch(cuda, 0);
    differentiate(cuda, x0 * expr::column<1>, no_rows,
                  gradients(overwrite(no_rows), accumulate(Vector<T>(x.data(), 4))), scratch, no_rows,
                  Vector<T>(x.data(), 4));
    gemm(cuda, no_columns, Op::plain, no_rows, Op::plain, some);
    gemm(cuda, no_rows, Op::plain, some, Op::plain, no_rows);
    gemm_batch(cuda, MatrixBatch<T>{end.data(), 0, 4, 4, 4, 16}, Op::plain, MatrixBatch<T>{end.data(), 0, 4, 4, 4, 16},
               Op::plain, MatrixBatch<T>{end.data(), 0, 4, 4, 4, 16});
    embedding_forward<T>(cuda, ids, some, no_rows);
    embedding_backward<T>(cuda, ids, std::nullopt, no_rows, some);
    GradientNorm<Cuda>(cuda, 0)(cuda, end);
    upload<float>(cuda, Vector<const float>(nullptr, 0), end);
    cuda.synchronize();
  }
}

TEST_CASE_TEMPLATE("aligned first rows with unaligned distances, and the reverse, in each operand and result", T, float,
                   double, bfloat16) {
  const auto each = static_cast<index_t>(16 / sizeof(T));
  constexpr index_t rows = 5, columns = 48;
  for (index_t which = 0; which < 4; ++which) {
    for (const auto& [first, further] : {std::pair<index_t, index_t>{0, 1}, {1, 0}, {each, each}, {1, each - 1}}) {
      const index_t offset = first, gap = further;
      check_both([&]<class D>(std::type_identity<D>) {
        const auto& device = test::device<D>();
        std::array<test::Mirror<T, D>, 4> memory;
        std::array<Matrix<element_t<D, T>>, 4> m;
        for (std::size_t i = 0; i < 4; ++i) {
          const index_t o = static_cast<index_t>(i) == which ? offset : 0,
                        g = static_cast<index_t>(i) == which ? gap : 0;
          memory[i] = test::Mirror<T, D>(numbers<T>(o + rows * (columns + g), i + 1));
          m[i] = Matrix<element_t<D, T>>(memory[i].vector().data() + o, Extents<dyn, dyn>(rows, columns), columns + g);
        }
        evaluate(device, formulas(x0 + x1, x0 - x1), outputs(m[2], m[3]), m[0], m[1]);
        evaluate(device, x0 - row_mean(x1), m[2], m[2], m[3]);
        arena_t<D> scratch(device, 0);
        differentiate(device, x0 * x1, m[0], gradients(overwrite(m[2]), accumulate(m[3])), scratch, m[1], m[0]);
        std::vector<double> all;
        for (auto& buffer : memory) {
          for (const T v : buffer.get()) all.push_back(static_cast<double>(v));
        }
        return all;
      });
    }
  }
}

TEST_CASE("a result in place of its operand, with reductions over the row it replaces") {
  for (const index_t columns : {1, 33, 1000, 17000}) {
    check_both([&]<class D>(std::type_identity<D>) {
      const auto& device = test::device<D>();
      test::Mirror<float, D> x(numbers<float>(3 * columns)), d_x(numbers<float>(3 * columns, 2));
      const auto formula = x0 / (row_sum(square(x0)) + 1.0) - row_mean(x0);
      evaluate(device, formula, x.matrix(columns), x.matrix(columns));
      arena_t<D> scratch(device, 0);
      differentiate(device, formula, d_x.matrix(columns), gradients(overwrite(d_x.matrix(columns))), scratch,
                    x.matrix(columns));
      auto all = x.get();
      for (const float d : d_x.get()) all.push_back(d);
      return all;
    });
  }
}

TEST_CASE("gradients of columns: overwritten, accumulated, several, of no rows, beside reductions and row operands") {
  const auto formula = (x0 - row_mean(x0 * expr::column<1>)) * expr::column<1> * expr::row<3> + expr::column<2> * x0;
  using Formula = std::remove_const_t<decltype(formula)>;
  for (const index_t rows : {0, 1, 15, 17, 40}) {
    for (const index_t columns : {1, 31, 33, 70}) {
      check_both([&]<class D>(std::type_identity<D>) {
        const auto& device = test::device<D>();
        test::Mirror<float, D> x(numbers<float>(rows * columns)), d_y(numbers<float>(rows * columns, 2)), d_x(x.get());
        test::Mirror<float, D> a(numbers<float>(columns, 3)), b(numbers<float>(columns, 4)), r(numbers<float>(rows, 5));
        test::Mirror<float, D> d_a(numbers<float>(columns, 6)), d_b(numbers<float>(columns, 7));
        const auto matrix = [&](auto& m) { return Matrix<element_t<D, float>>(m.vector().data(), rows, columns); };
        arena_t<D> scratch(device, differentiate_scratch<Formula, float>(rows));
        const auto run = [&](const auto&... g) {
          differentiate(device, formula, matrix(d_y), gradients(g...), scratch, matrix(x), a.vector(), b.vector(),
                        r.vector());
        };
        run(no_gradient, no_gradient, no_gradient, no_gradient);
        run(accumulate(matrix(d_x)), overwrite(d_a.vector()), accumulate(d_b.vector()), no_gradient);
        run(no_gradient, accumulate(d_a.vector()), accumulate(d_a.vector()), no_gradient);
        auto all = d_x.get();
        for (const float v : d_a.get()) all.push_back(v);
        for (const float v : d_b.get()) all.push_back(v);
        return all;
      });
    }
  }
}

TEST_CASE("a row's sum of a constant: no operands at all") {
  check_both([]<class D>(std::type_identity<D>) {
    test::Mirror<float, D> y(std::vector<float>(70));
    evaluate(test::device<D>(), row_sum(expr::as_expression(0.3)) - row_mean(expr::as_expression(2.0)), y.matrix(35));
    return y.get();
  });
}

TEST_CASE("operands of three widths in one expression") {
  check_both([&]<class D>(std::type_identity<D>) {
    const auto& device = test::device<D>();
    constexpr index_t rows = 7, columns = 45;
    test::Mirror<bfloat16, D> a(numbers<bfloat16>(rows * columns));
    test::Mirror<float, D> b(numbers<float>(columns, 2)), y(numbers<float>(rows * columns, 3));
    test::Mirror<bfloat16, D> z(numbers<bfloat16>(rows * columns, 4));
    evaluate(device, formulas(x0 * expr::column<1>, x0 + expr::rounded_to<bfloat16>(x0 * expr::column<1>)),
             outputs(y.matrix(columns), z.matrix(columns)), a.matrix(columns), b.vector());
    evaluate(device, x0 - row_max(x1), y.matrix(columns), y.matrix(columns), a.matrix(columns));
    auto all = y.get();
    for (const bfloat16 v : z.get()) all.push_back(v);
    return all;
  });
}

TEST_CASE("workspaces of any size: what stands in them begins at addresses that every type allows") {
  for (const std::size_t odd : {0U, 1U, 1001U, 4095U}) {
    const Cuda cuda({.blas_workspace = odd, .panel_workspace = 3000 + odd});
    CHECK(reinterpret_cast<std::uintptr_t>(cuda.panel().data()) % 256 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(cuda.faults()) % sizeof(unsigned long long) == 0);
    CHECK(cuda.panel().size() >= 3000 + odd);
    CHECK(reinterpret_cast<std::byte*>(cuda.faults()) >= cuda.panel().data() + cuda.panel().size());
    cuda.synchronize();
  }
}

TEST_CASE("a check of operands allocates nothing") {
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> x(std::vector<float>(8)), y(std::vector<float>(8));
  const long before = ::allocations();
  cuda::require_device_memory(cuda, "operand", cuda::as_operands(x.vector(), y.vector()));
  CHECK(::allocations() == before);
}

TEST_CASE("buffers may end after their device, and two devices keep out of each other's way") {
  CudaBuffer<float> left;
  {
    const Cuda first(test::small_workspaces), second(test::small_workspaces);
    CudaBuffer<float> a(first, 100), b(second, 100);
    const Vector<element_t<Cuda, float>> av(a.data(), 100), bv(b.data(), 100);
    evaluate(first, expr::as_expression(1.0), av);
    evaluate(second, expr::as_expression(2.0), bv);
    first.synchronize();
    evaluate(second, x0 + x1, bv, av, bv);
    std::vector<float> host(100);
    download<float>(second, bv, Vector<float>(host.data(), 100));
    CHECK(host == std::vector<float>(100, 3.0f));
    left = std::move(b);
    CHECK(b.size() == 0);
  }
  CHECK(left.size() == 100);
}
