#pragma once
/// \file
/// Drafts for the public miniature of Kimi K3, 0.18 billion parameters with Kimi K3's vocabulary.
/// defines: small::Target, small::Eagle3, small::DSpark

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/change.hpp>

namespace small {

using Target = k3spec::configs::KimiK3SmallTarget;
using Eagle3 = k3spec::configs::KimiK3Small;
struct DSpark : k3spec::configs::DSpark<Target> {
  K3SPEC_CHANGE(DSpark, mask_token_id, 163824);
  K3SPEC_CHANGE(DSpark, block_causal, true);
  K3SPEC_CHANGE(DSpark, sliding_window, 8);
};

}  // namespace small
