// A product whose extents are in the types. Each of the three meets the other two's neighbours.
// expect: gemm: op(A) and C have other numbers of rows
// expect: gemm: op(B) has not as many rows as op(A) has columns
// expect: gemm: op(B) and C have other numbers of columns
// errors: 3
#include <k3spec/backend/cpu/gemm.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t other = 1;
#else
constexpr index_t other = 0;
#endif

void products(View<const float, 3, 5> a, View<const float, 5, 3> a_t, View<const float, 5, 4> b,
              View<const float, 4, 5> b_t, View<float, 3, 4> c, Rows<float, 4> c_rows) {
  gemm<Op::plain, Op::transposed>(Cpu{}, a, b_t, c);
  gemm<Op::transposed, Op::plain>(Cpu{}, a_t, b, c_rows);
  gemm<Op::transposed, Op::plain>(Cpu{}, a_t, b, View<float, 3 + other, 4>(c.data()));
  gemm<Op::plain, Op::plain>(Cpu{}, a, View<const float, 5 + other, 4>(b.data()), c);
  gemm<Op::plain, Op::transposed>(Cpu{}, a, View<const float, 4 + other, 5>(b_t.data()), c);
}
