// Where an op or a copy names the memory of its arguments, a view of the host's is another type.
// expect: error: no matching function for call to
// expect: embedding_forward
// expect: sums_of_squares
// expect: upload
// errors: 3
// lines: 60
#include <k3spec/cuda.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
using D = Cpu;
#else
using D = Cuda;
#endif
using T = element_t<Cuda, float>;

void ids(const Cuda& cuda, Vector<const element_t<D, index_t>> host, Matrix<const T> table, Matrix<T> y) {
  embedding_forward<T>(cuda, host, table, y);
}
void sums(const Cuda& cuda, Vector<const T> x, Vector<element_t<D, double>> host) { sums_of_squares<T>(cuda, x, host); }
void copy(const Cuda& cuda, Vector<const float> from, Vector<element_t<D, float>> to) { upload<float>(cuda, from, to); }
