#pragma once
/// \file
/// EAGLE-3 drafts as types: a target's config with what the draft adds.
/// defines: configs::Eagle3

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::configs {

/// An EAGLE-3 draft of any target; derive and hide what is otherwise.
template <class Target>
struct Eagle3 : Target {
  static constexpr index_t draft_vocab_size = 32000;
  static constexpr index_t num_aux_hidden_states = 3;
  static constexpr index_t target_hidden_size = Target::hidden_size;
  /// eps of q_a_layernorm and kv_a_layernorm.
  static constexpr double mla_norm_eps = 1e-5;
  /// EAGLE-3.1: every auxiliary state is normed before fc.
  static constexpr bool fc_norm = false;
  /// EAGLE-3.1: the step emits its post-norm state.
  static constexpr bool norm_output = false;
  static constexpr bool train_embeddings = false;
};

}  // namespace K3SPEC_NAMESPACE::configs
