#pragma once
/// \file
/// What a SpeculativeDecoder plans the sessions of its target and of its draft for.
/// defines: target_size, draft_size

#include <algorithm>

#include <k3spec/core/checked.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/target_session.hpp>

namespace K3SPEC_NAMESPACE {

/// The draft's session.
/// \param chain     tokens drafted at a time for a text
/// \param capacity  positions of prompt and generated tokens together, of each text
/// \throws Error on sizes that are negative or cannot be addressed
inline SessionSize draft_size(const DecodeOptions& options, index_t chain, index_t capacity, index_t texts) {
  const index_t prompts = std::min(options.prefill_chunk, checked_product(capacity, texts));
  return {.capacity = capacity,
          .rows = std::max(prompts, checked_product(chain + 1, texts)),
          .chain = chain,
          .sampled = options.temperature != 0,
          .min_confidence = options.min_confidence,
          .sequences = texts};
}

/// The target's: a forward is of prompts, or of all chains with the token before each.
inline TargetSessionSize target_size(const DecodeOptions& options, index_t chain, index_t capacity, index_t texts) {
  return {.capacity = capacity + chain,
          .rows = draft_size(options, chain, capacity, texts).rows,
          .choices = texts * (chain + 1),
          .rollback = chain + 1,
          .sequences = texts};
}

}  // namespace K3SPEC_NAMESPACE
