// expect: config: rms_norm_eps must be positive
// expect: config: mla_norm_eps must be positive
// expect: config: activation_situ_beta and its linear one must be positive
// expect: config: num_experts_per_token must not be more than the experts of topk_group groups
// expect: config: kda_gate_lower_bound must be negative or none
// expect: config: an expert's sizes must be positive
// expect: config: target_mla_norm_eps must be positive
#include <k3spec/config/check.hpp>

using namespace k3spec;
using configs::KimiK3Tiny;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t sign = -1, chosen = 5;
#else
constexpr index_t sign = 1, chosen = 4;
#endif

struct NormEps : KimiK3Tiny {
  static constexpr double rms_norm_eps = 1e-5 * sign;
};
struct MlaEps : KimiK3Tiny {
  static constexpr double mla_norm_eps = 1e-5 * sign;
};
struct Beta : KimiK3Tiny {
  static constexpr std::optional<double> activation_situ_linear_beta = 25.0 * sign;
};
struct Groups : KimiK3Tiny {
  static constexpr index_t num_expert_group = 4, topk_group = 1, num_experts_per_token = chosen;
};
struct Bound : KimiK3Tiny {
  static constexpr std::optional<double> kda_gate_lower_bound = -5.0 * sign;
};
struct Expert : KimiK3Tiny {
  static constexpr index_t moe_intermediate_size = 64 * sign;
};
struct TargetEps : KimiK3Tiny {
  static constexpr double target_mla_norm_eps = 1e-6 * sign;
};
template struct k3spec::CheckedEagle3<NormEps>;
template struct k3spec::CheckedEagle3<MlaEps>;
template struct k3spec::CheckedEagle3<Beta>;
template struct k3spec::CheckedTarget<Groups>;
template struct k3spec::CheckedTarget<Bound>;
template struct k3spec::CheckedTarget<Expert>;
template struct k3spec::CheckedTarget<TargetEps>;
