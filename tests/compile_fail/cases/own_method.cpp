// A method of one's own in the Trainer without the function for its gradients.
// expect: Trainer: the method has no forward_backward, so no gradients
// errors: 1
// first: 15
#include <k3spec/layers/linear.hpp>
#include <k3spec/run/trainer.hpp>

using namespace k3spec;

struct Sums {
  double loss = 0;
  template <class V>
  void visit_sums(V&& v) {
    v(loss);
  }
};

struct OwnMethod {
  using value_type = float;
  using device_type = Cpu;
  using Draft = Linear<6, 4>;
  using Target = Linear<6, 6>;
  struct Teacher {
    struct Stored {};
  };
  struct Setup {};
  using Metrics = Sums;
  using Totals = Sums;

  Metrics evaluate(const Cpu& device, const Draft::Weights<const float>& w, const TextWindows& windows, index_t index);
#ifdef K3SPEC_EXPECT_FAIL
#else
  Metrics forward_backward(const Cpu& device, const Draft::Weights<const float>& w, const Draft::Weights<float>& d_w,
                           const TextWindows& windows, MicroBatch at, const std::optional<Totals>& totals);
#endif
};

static_assert(sizeof(Trainer<OwnMethod>) > 0);
