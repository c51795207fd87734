// A layer of one's own whose input is of another element type than its weights.
// expect: Linear: a view and the weights mix double with float or bfloat16
// errors: 1
// first: 15
#include <k3spec/layers/linear.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
using Other = double;
#else
using Other = float;
#endif

struct Own {
  using In = Linear<6, 4>;
  template <class T>
  struct Weights {
    In::Weights<T> in;
  };
  template <class T>
  static void forward(const Weights<const T>& w, const Rows<const Other, 6>& x, const Rows<T, 4>& y) {
    In::forward(Cpu{}, w.in, x, y);
  }
};

void run(const Own::Weights<const float>& w, const Rows<const Other, 6>& x, const Rows<float, 4>& y) {
  Own::forward<float>(w, x, y);
}
