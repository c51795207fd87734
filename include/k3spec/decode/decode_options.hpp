#pragma once
/// \file
/// defines: DecodeOptions, DecodeResult

#include <optional>
#include <vector>

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
};

struct DecodeResult {
  /// What was generated, an end-of-sequence token included.
  std::vector<index_t> tokens;
  /// Target forwards after the prompt's.
  index_t target_forwards = 0;
  index_t drafted = 0, accepted = 0;

  /// Tokens that the forwards after the prompt's gave, per forward; the prompt's own gave the first token.
  double tokens_per_forward() const {
    if (target_forwards == 0) return 0;
    return static_cast<double>(tokens.size() - 1) / static_cast<double>(target_forwards);
  }
};

}  // namespace k3spec
