// A view of the host's memory for an op on a card: each says which.
// expect: an expression on Cuda: an operand is no view of element_t<Cuda, T>
// expect: an expression on Cuda: a result is no view of element_t<Cuda, T>
// expect: an expression on Cuda: a gradient is no view of element_t<Cuda, T>
// expect: gemm on Cuda: A, B or C is no view of element_t<Cuda, T>
// expect: gemm_batch on Cuda: A, B or C is no view of element_t<Cuda, T>
// expect: embedding on Cuda: y is no view of element_t<Cuda, T>
// expect: embedding on Cuda: d_y is no view of element_t<Cuda, T>
// errors: 7
// lines: 110
#include <k3spec/cuda.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
using Any = float;
#else
using Any = element_t<Cuda, float>;
#endif
using T = element_t<Cuda, float>;
using Ids = Vector<const element_t<Cuda, index_t>>;

void expressions(const Cuda& cuda, Vector<const Any> host, Vector<Any> result, Vector<T> x, CudaArena& scratch) {
  evaluate(cuda, expr::arg<0> * 2.0, x, host);
  evaluate(cuda, expr::arg<0> * 2.0, result, x);
  differentiate(cuda, expr::arg<0> * 2.0, x, gradients(overwrite(result)), scratch, x);
}

void products(const Cuda& cuda, Matrix<const Any> host, Matrix<T> x) {
  gemm(cuda, host, Op::plain, x, Op::plain, x);
  gemm_batch(cuda, head_batch(host, 2), Op::plain, head_batch(x, 2), Op::plain, head_batch(x, 2));
}

void embedding(const Cuda& cuda, Ids ids, Matrix<Any> host, Matrix<T> table) {
  embedding_forward<T>(cuda, ids, table, host);
  embedding_backward<T>(cuda, ids, std::nullopt, host, table);
}
