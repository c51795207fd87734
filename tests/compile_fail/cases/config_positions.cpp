// expect: config: mla_use_nope = false is not K3
// expect: config: rope_scaling is not K3
// expect: config: mla_use_nope = true is not DeepSeek-V3
// expect: config: mla_use_output_gate = true is not DeepSeek-V3
// expect: config: qk_rope_head_dim must be even
// expect: config: softmax_mscale = yarn_mscale_squared needs a rope_scaling
// expect: config: rope_theta must be larger than 1
// expect: CheckedPositions<NoFrequency>
// expect: CheckedPositions<Shrunk>
// expect: CheckedPositions<Crossed>
// expect: config: the target is Kimi K3
#include <k3spec/config/check.hpp>
#include <k3spec/config/deepseek_v3.hpp>

using namespace k3spec;
using configs::DeepSeekV3Tiny;
using configs::KimiK3Tiny;

struct RotatedK3 : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = false;
#endif
};
struct YarnedK3 : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 4096};
#else
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
#endif
};
struct NotRotated : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_nope = true;
#endif
};
struct Gated : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr bool mla_use_output_gate = true;
#endif
};
struct OddSlice : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr index_t qk_rope_head_dim = 7;
#endif
};
struct ScaledByNothing : DeepSeekV3Tiny {
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
#endif
};
struct NoFrequency : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr double rope_theta = 1;
#endif
};
struct Shrunk : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr std::optional<Yarn> rope_scaling = Yarn{0.5, 32, 1, 4096};
#endif
};
struct Crossed : DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 1, 32, 4096};
#endif
};
struct OtherTarget : KimiK3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr Backbone backbone = Backbone::deepseek_v3;
#endif
};

template struct k3spec::CheckedEagle3<RotatedK3>;
template struct k3spec::CheckedEagle3<YarnedK3>;
template struct k3spec::CheckedEagle3<NotRotated>;
template struct k3spec::CheckedEagle3<Gated>;
template struct k3spec::CheckedEagle3<OddSlice>;
template struct k3spec::CheckedEagle3<ScaledByNothing>;
template struct k3spec::CheckedEagle3<NoFrequency>;
template struct k3spec::CheckedEagle3<Shrunk>;
template struct k3spec::CheckedEagle3<Crossed>;
template struct k3spec::CheckedTarget<OtherTarget>;
