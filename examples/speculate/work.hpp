#pragma once
/// \file
/// What parts of a round multiply and read, by numbers of parameters and the bytes they are kept in: a model of them,
/// no measurement.
/// defines: Work, target_work, draft_work

#include <algorithm>
#include <string>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/layers/prepacked.hpp>
#include <k3spec/target/forward.hpp>

namespace k3spec::examples {

/// Of one pass. Counted is every parameter that a row is multiplied with: no attention over the cache, no embedding,
/// which is looked up, and no activations. A pass reads each of these parameters once for all its rows.
struct Work {
  index_t multiply_adds = 0;
  /// Of weights as they are kept. Rows may choose the same experts, or all of them others.
  index_t least_bytes = 0, most_bytes = 0;
};

/// A forward of the target over some rows. \param bytes  of the target
template <class Target>
Work target_work(index_t rows, const TargetBytes& bytes) {
  using Config = typename Target::Config;
  const auto always = static_cast<index_t>(bytes.all - bytes.embedding - bytes.experts);
  // Of one expert in every layer that has any.
  const index_t expert = static_cast<index_t>(bytes.experts) / std::max<index_t>(Config::num_experts, 1);
  const index_t most = std::min(Config::num_experts, rows * Config::num_experts_per_token);
  return {rows * Target::active_parameters(), always + Config::num_experts_per_token * expert, always + most * expert};
}

/// What drafts up to `chain` tokens: steps of one row each that read the draft anew, or one pass over a block's slots.
/// What reads the target's states (fc) is the part that keeps them, not counted here. Every slot of a block counts with
/// the head, also that of the anchor.
/// \param target_head  bytes of the target's head, which DFlash reads  \returns of all steps together
template <class Draft>
Work draft_work(index_t chain, const typename Draft::template Weights<const float>& weights, index_t target_head) {
  using Config = typename Draft::config;
  constexpr index_t embedding = Config::vocab_size * Config::hidden_size;
  constexpr bool steps = Draft::kind == DraftKind::eagle3, targets_head = Draft::kind == DraftKind::dflash;
  index_t active = parameter_count<Draft>, bytes = targets_head ? target_head : 0;
  if constexpr (steps) {
    active -= embedding + Draft::aux_width * Draft::hidden;
  } else {
    active -= Draft::target_width * Draft::hidden;
    // DFlash has the target's head; DSpark one of its own, and an embedding.
    active += targets_head ? embedding : -embedding;
  }
  visit_prepacked_bytes<Draft, float>(weights, [&](const std::string& name, index_t kept) {
    const bool counts =
        name.find("embed_tokens.weight") == std::string::npos && ("." + name).find(".fc.weight") == std::string::npos;
    if (counts) bytes += kept;
  });
  const index_t rows = chain + (targets_head ? 1 : 0);
  bytes *= steps ? rows : 1;
  return {rows * active, bytes, bytes};
}

}  // namespace k3spec::examples
