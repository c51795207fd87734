#pragma once
/// \file
/// What a decoder is asked for, and what it gives.
/// defines: DecodeOptions, DecodeResult

#include <optional>
#include <string>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/decode/verify.hpp>

namespace k3spec {

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

struct DecodeOptions {
  index_t max_new_tokens = 64;
  /// Drafted tokens per verification, at least 1; none: as many as the draft was trained for.
  std::optional<index_t> chain = {};
  /// Decoding ends with this token; none: only by max_new_tokens.
  std::optional<index_t> eos_token_id = {};
  /// Prompt tokens per target forward.
  index_t prefill_chunk = 64;
  /// 0: the likeliest token, always. Else tokens are drawn with probability ∝ exp(logit / temperature), by `seed`.
  double temperature = 0;
  std::uint64_t seed = 0;
  /// A draft with a confidence head ends a block before the first token whose chance to be accepted, that of all
  /// before it included, it takes to be lower: confidences 0.9 0.9 0.9 end a block at 0.8 after two; 0: never.
  double min_confidence = 0;
  /// The rule by which drafted tokens stay at a temperature; see decode/verify.hpp.
  Verification verification = Verification::block;

  Sampling sampling() const { return {temperature, seed}; }

  /// Does this result need no more tokens?
  bool is_complete(const DecodeResult& r) const {
    return static_cast<index_t>(r.tokens.size()) >= max_new_tokens ||
           (!r.tokens.empty() && r.tokens.back() == eos_token_id);
  }

  static constexpr index_t most_positions = index_t{1} << 32;

  /// \param capacity   positions of prompt and generated tokens together
  /// \param max_chain  the longest chain a draft can make
  /// \throws Error naming the option that is out of range
  const DecodeOptions& checked(index_t capacity, index_t max_chain = most_positions) const {
    const auto within = [](const char* what, auto found, auto least, auto most) {
      if (found >= least && found <= most) return;
      throw Error(what, fmt::format("{}", found), fmt::format("{} to {}", least, most));
    };
    within("capacity", capacity, index_t{1}, most_positions);
    within("max_new_tokens", max_new_tokens, index_t{0}, most_positions);
    within("chain", chain.value_or(1), index_t{1}, max_chain);
    within("prefill_chunk", prefill_chunk, index_t{1}, most_positions);
    if (temperature != 0) within("temperature, where it is not 0", temperature, 1e-6, 1e6);
    within("min_confidence", min_confidence, 0.0, 1.0);
    return *this;
  }
};

}  // namespace k3spec
