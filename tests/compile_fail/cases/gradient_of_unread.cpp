// expect: an operand that the expression never reads has no gradient: its destination must be no_gradient
#include <k3spec/backend/cpu/differentiate.hpp>

using namespace k3spec;

void call(const Matrix<float>& m, Arena& scratch) {
  differentiate(Cpu{}, expr::arg<0> * 2.0, m, gradients(overwrite(m), no_gradient), scratch, m, m);
#ifdef K3SPEC_EXPECT_FAIL
  differentiate(Cpu{}, expr::arg<0> * 2.0, m, gradients(overwrite(m), overwrite(m)), scratch, m, m);
#endif
}
