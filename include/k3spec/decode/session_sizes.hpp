#pragma once
/// \file
/// What a SpeculativeDecoder plans the sessions of its target and of its draft for.
/// defines: DecoderSize, target_size, draft_size

#include <algorithm>

#include <k3spec/core/checked.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/target_engine.hpp>

namespace K3SPEC_NAMESPACE {

/// What a decoder has room for.
struct DecoderSize {
  index_t capacity;   ///< the most positions of prompt and generated tokens together, of each text
  index_t texts = 1;  ///< the most that are decoded at a time
};

/// The draft's session.
/// \param chain  tokens drafted at a time for a text
/// \throws Error on sizes that are negative or cannot be addressed
inline SessionSize draft_size(const DecodeOptions& options, index_t chain, const DecoderSize& size) {
  const auto [capacity, texts] = size;
  const index_t prompts = std::min(options.prefill_chunk, checked_product(capacity, texts));
  return {.capacity = capacity,
          .rows = std::max(prompts, checked_product(chain + 1, texts)),
          .chain = chain,
          .sampled = options.temperature != 0,
          .min_confidence = options.min_confidence,
          .sequences = texts,
          .adaptive = options.adaptive_length};
}

/// The target's: a forward is of prompts, or of all chains with the token before each.
inline TargetSessionSize target_size(const DecodeOptions& options, index_t chain, const DecoderSize& size) {
  return {.capacity = size.capacity + chain,
          .rows = draft_size(options, chain, size).rows,
          .choices = size.texts * (chain + 1),
          .rollback = chain + 1,
          .sequences = size.texts};
}

}  // namespace K3SPEC_NAMESPACE
