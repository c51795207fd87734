// expect: Linear: both widths must be positive
// expect: KimiRMSNorm: the width must be positive
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>

#ifdef K3SPEC_EXPECT_FAIL
constexpr k3spec::index_t none = 0;
#else
constexpr k3spec::index_t none = 1;
#endif
template struct k3spec::Linear<3, none>;
template struct k3spec::KimiRMSNorm<none>;
