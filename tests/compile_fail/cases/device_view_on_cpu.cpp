// expect: evaluate on Cpu: a view is in another device's memory
// expect: a view is in another memory than the weights it meets
// first: 15
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/copy.hpp>

using namespace k3spec;

struct Elsewhere {};
#ifdef K3SPEC_EXPECT_FAIL
using There = Placed<float, Elsewhere>;
#else
using There = float;
#endif

void run(const Linear<4, 3>::Weights<const float>& w, Rows<There, 4> x, Rows<float, 4> copy, Rows<float, 3> y) {
  evaluate(Cpu{}, expr::arg<0>, copy, x);
  Linear<4, 3>::forward(Cpu{}, w, x, y);
}
