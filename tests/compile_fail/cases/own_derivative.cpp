// An activation of one's own without its derivative.
// expect: differentiate: a function of the expression has no derivative beside its value
// errors: 1
// first: 15
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/arena.hpp>

using namespace k3spec;

struct Cube {
  template <class P>
  static P value(P x) {
    return x * x * x;
  }
#ifdef K3SPEC_EXPECT_FAIL
#else
  template <class P>
  static P derivative(P x, P) {
    return P(3) * x * x;
  }
#endif
};

void backward(const Rows<const float, 6>& x, const Rows<const float, 6>& d_y, const Rows<float, 6>& d_x,
              Arena& scratch) {
  constexpr auto cube = expr::Unary<Cube, std::remove_cvref_t<decltype(expr::arg<0>)>>{expr::arg<0>};
  differentiate(Cpu{}, cube, d_y, gradients(overwrite(d_x)), scratch, x);
}
