#pragma once
/// \file
/// EAGLE-3.1 drafts as types.
/// defines: configs::Eagle31

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::configs {

/// An EAGLE-3 draft's config with what 3.1 adds: every auxiliary state is normed before fc, and a step emits its
/// post-norm state.
template <class Draft>
struct Eagle31 : Draft {
  static constexpr bool fc_norm = true;
  static constexpr bool norm_output = true;
};

}  // namespace K3SPEC_NAMESPACE::configs
