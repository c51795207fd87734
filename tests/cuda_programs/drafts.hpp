#pragma once
// A small model's drafts, one of each kind.
#include "../../examples/own_model/mine.hpp"

struct MineDFlash : k3spec::configs::DFlash<Mine> {
  K3SPEC_CHANGE(DFlash, mask_token_id, 259);
};
