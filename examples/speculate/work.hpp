#pragma once
/// \file
/// What parts of a round multiply and read, by numbers of parameters: a model of them, no measurement.
/// defines: Work, target_work, draft_work

#include <algorithm>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/target/k3_target.hpp>

namespace k3spec::examples {

/// Of one pass. Counted is every parameter that a row is multiplied with: no attention over the cache, no embedding,
/// which is looked up, and no activations. A pass reads each of these parameters once for all its rows.
struct Work {
  index_t multiply_adds = 0;
  /// Of weights in float32. Rows may choose the same experts, or all of them others.
  index_t least_bytes = 0, most_bytes = 0;
};

/// A forward of the target over some rows.
template <class Target>
Work target_work(index_t rows) {
  using Config = typename Target::Config;
  constexpr index_t active = Target::active_parameters();
  constexpr index_t unused = Config::num_experts - Config::num_experts_per_token;
  // Of one expert in every layer that has any.
  constexpr index_t idle = parameter_count<Target> - Config::vocab_size * Config::hidden_size - active;
  constexpr index_t expert = unused == 0 ? 0 : idle / std::max<index_t>(unused, 1);
  const index_t others = std::min(Config::num_experts, rows * Config::num_experts_per_token);
  constexpr auto size = static_cast<index_t>(sizeof(float));
  return {rows * active, size * active, size * (active + (others - Config::num_experts_per_token) * expert)};
}

/// What drafts up to `chain` tokens: steps of one row each that read the draft anew, or one pass over a block's slots.
/// What reads the target's states (fc) is the part that keeps them, not counted here. Every slot of a block counts with
/// the head, also that of the anchor.
/// \returns of all steps together
template <class Draft>
Work draft_work(index_t chain) {
  using Config = typename Draft::config;
  constexpr index_t embedding = Config::vocab_size * Config::hidden_size;
  constexpr bool steps = Draft::kind == DraftKind::eagle3;
  constexpr auto size = static_cast<index_t>(sizeof(float));
  index_t active = parameter_count<Draft>;
  if constexpr (steps) {
    active -= embedding + Draft::aux_width * Draft::hidden;
  } else {
    active -= Draft::target_width * Draft::hidden;
    // DFlash has the target's head; DSpark one of its own, and an embedding.
    active += Draft::kind == DraftKind::dflash ? embedding : -embedding;
  }
  const index_t rows = chain + (Draft::kind == DraftKind::dflash ? 1 : 0), bytes = size * active * (steps ? rows : 1);
  return {rows * active, bytes, bytes};
}

}  // namespace k3spec::examples
