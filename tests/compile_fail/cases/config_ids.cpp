// expect: config: bos_token_id must be below vocab_size, or none
// expect: config: eos_token_id must be below vocab_size, or none
// expect: config: pad_token_id must be below vocab_size, or none
// expect: config: other_stop_token_ids and media_token_id must be below vocab_size, or none
// expect: CheckedBackbone<Media>
// expect: config: mask_token_id must be below vocab_size, or none
#include <k3spec/config/check.hpp>

using namespace k3spec;
using configs::KimiK3Tiny;
using Id = std::optional<index_t>;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t id = 260;
#else
constexpr index_t id = 259;
#endif

struct Begin : KimiK3Tiny {
  static constexpr Id bos_token_id = id;
};
struct Padding : KimiK3Tiny {
  static constexpr Id pad_token_id = id;
};
struct Stops : KimiK3Tiny {
  static constexpr std::array<index_t, 2> other_stop_token_ids{3, id};
};
struct Media : KimiK3Tiny {
  static constexpr Id media_token_id = id;
};
struct Mask : configs::KimiK3TinyDFlash {
  static constexpr Id mask_token_id = id;
};
/// eos_token_id is the base's 257.
struct Smaller : KimiK3Tiny {
  static constexpr index_t vocab_size = 200;
#ifndef K3SPEC_EXPECT_FAIL
  static constexpr Id bos_token_id = std::nullopt, eos_token_id = 199, pad_token_id = 0;
#endif
};

template struct k3spec::CheckedEagle3<Begin>;
template struct k3spec::CheckedTarget<Padding>;
template struct k3spec::CheckedEagle3<Stops>;
template struct k3spec::CheckedEagle3<Media>;
template struct k3spec::CheckedDFlash<Mask>;
template struct k3spec::CheckedTarget<Smaller>;
