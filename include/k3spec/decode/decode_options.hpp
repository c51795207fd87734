#pragma once
/// \file
/// What a decoder is asked for, and what it gives.
/// defines: DecodeOptions, DecodeResult

#include <optional>
#include <string>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace k3spec {

struct DecodeOptions {
  index_t max_new_tokens = 64;
  /// Drafted tokens per verification, at least 1.
  index_t chain = 5;
  /// Decoding ends with this token; none: only by max_new_tokens.
  std::optional<index_t> eos_token_id;
  /// Prompt tokens per target forward.
  index_t prefill_chunk = 64;

  /// \param capacity   positions of prompt and generated tokens together
  /// \param max_chain  the longest chain a draft can make
  /// \throws Error naming the option that is out of range
  const DecodeOptions& checked(index_t capacity, index_t max_chain) const {
    const auto within = [](const char* what, index_t found, index_t least, index_t most) {
      if (found >= least && found <= most) return;
      throw Error(what, std::to_string(found), std::to_string(least) + " to " + std::to_string(most));
    };
    constexpr index_t most_positions = index_t{1} << 32;
    within("capacity", capacity, 1, most_positions);
    within("max_new_tokens", max_new_tokens, 0, most_positions);
    within("chain", chain, 1, max_chain);
    within("prefill_chunk", prefill_chunk, 1, most_positions);
    return *this;
  }
};

struct DecodeResult {
  /// What was generated, an end-of-sequence token included.
  std::vector<index_t> tokens;
  /// Target forwards after the prompt's.
  index_t target_forwards = 0;
  /// Tokens that were drafted, and those of them that stand in `tokens`.
  index_t drafted = 0, accepted = 0;

  /// Tokens that the forwards after the prompt's gave, per forward; the prompt's own gave the first token.
  double tokens_per_forward() const {
    if (target_forwards == 0) return 0;
    return static_cast<double>(tokens.size() - 1) / static_cast<double>(target_forwards);
  }
};

}  // namespace k3spec
