#pragma once
/// \file
/// What a decoder is asked for, and what it gives.
/// defines: FinishReason, DecodeOptions, DecodeResult

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/decode/decode_statistics.hpp>
#include <k3spec/decode/logit_processor.hpp>
#include <k3spec/decode/stop_strings.hpp>
#include <k3spec/decode/token_sampler.hpp>
#include <k3spec/decode/verify.hpp>

namespace K3SPEC_NAMESPACE {

/// Why a text ends: with max_new_tokens, a stop token, or the last byte of a stop string. Where the last token is
/// several of these, a stop token goes before a stop string, and both before the length.
enum class FinishReason { length, stop_token, stop_string };
template <>
inline constexpr std::array<std::string_view, 3> names_of<FinishReason>{"length", "stop_token", "stop_string"};

/// What decoding gave, and what it cost.
struct DecodeResult {
  /// What was generated, the stop token included.
  std::vector<index_t> tokens;
  FinishReason finish = FinishReason::length;
  /// Bytes of the last token that stand behind the stop string, where one was found.
  std::size_t bytes_after_stop = 0;
  /// Target forwards after the prompt's.
  index_t target_forwards = 0;
  /// Tokens that were drafted, and those of them that stand in `tokens`.
  index_t drafted = 0, accepted = 0;
  /// Time to first token: of the prompt and the choice after it. Then that of all other tokens.
  double seconds_to_first_token = 0, seconds_after = 0;

  /// Tokens that the forwards after the prompt's gave: the prompt's own gave the first token.
  index_t tokens_after_first() const { return tokens.empty() ? 0 : static_cast<index_t>(tokens.size()) - 1; }
  /// Emitted tokens over target forwards, the prompt's and its token left out. A text may end inside a block: what was
  /// verified behind its end is not emitted. 0 without a forward.
  double accept_length() const {
    if (target_forwards == 0) return 0;
    return static_cast<double>(tokens_after_first()) / static_cast<double>(target_forwards);
  }
};

/// How a text is decoded.
struct DecodeOptions {
  index_t max_new_tokens = 64;
  /// Drafted tokens per verification, at least 1; none: as many as the draft was trained for.
  std::optional<index_t> chain = {};
  /// Decoding ends with any of these tokens (io::stop_token_ids, stop_token_ids<Config>()); none: they are tokens like
  /// others.
  std::vector<index_t> stop_token_ids = {};
  /// Decoding ends with the token that completes one of these in what was generated, and with it needs the tokens'
  /// bytes.
  std::vector<std::string> stop_strings = {};
  TokenBytes token_bytes = {};
  /// Prompt tokens per target forward.
  index_t prefill_chunk = 64;
  /// 0: the likeliest token, always. Else tokens are drawn with probability ∝ exp(logit / temperature), by `seed`.
  double temperature = 0;
  std::uint64_t seed = 0;
  /// What of it is kept at a temperature: of the target's tokens, and of the draft's, where nothing else is said.
  Truncation truncation = {};
  std::optional<Truncation> draft_truncation = {};
  /// Sees each row of the target's logits before temperature and truncation.
  LogitProcessor logit_processor = {};
  /// Chooses each token from the processed logits, where the temperature is 0; see decode/token_sampler.hpp.
  TokenSampler sampler = {};
  /// A draft with a confidence head ends a block before the first token whose chance to be accepted, that of all
  /// before it included, it takes to be lower: confidences 0.9 0.9 0.9 end a block at 0.8 after two; 0: never.
  double min_confidence = 0;
  /// The rule by which drafted tokens stay at a temperature; see decode/verify.hpp.
  Verification verification = Verification::block;
  /// As many tokens are drafted as are worth their time, up to `chain` (decode/adaptive_length.hpp). What is measured
  /// decides: a run's rounds are no other's, and at a temperature neither are its tokens, but for their distribution,
  /// for which texts that are decoded together need seeds of their own. Greedy tokens are the same.
  bool adaptive_length = false;
  /// By which DecodeStatistics and costs are measured, not DecodeResult.
  DecodeClock clock = {};

  Sampling sampling() const { return {temperature, seed, truncation}; }
  Sampling draft_sampling() const { return {temperature, seed, draft_truncation.value_or(truncation)}; }

  static constexpr index_t most_positions = index_t{1} << 32;
  /// What these may be; a temperature may also be 0.
  static constexpr Range<double> temperature_range{1e-6, 1e6}, min_confidence_range{0, 1};

  /// These options, if they can be met.
  /// \param capacity    positions of prompt and generated tokens together
  /// \param vocabulary  tokens of the target
  /// \param max_chain   the longest chain a draft can make
  /// \throws Error naming the option that is out of range
  const DecodeOptions& checked(index_t capacity, index_t vocabulary, index_t max_chain = most_positions) const {
    const auto within = [](const char* what, index_t found, index_t least, index_t most) {
      Range<index_t>{least, most}.check(what, found);
    };
    within("capacity", capacity, 1, most_positions);
    within("max_new_tokens", max_new_tokens, 0, most_positions);
    within("chain", chain.value_or(1), 1, max_chain);
    within("prefill_chunk", prefill_chunk, 1, most_positions);
    for (const index_t id : stop_token_ids) within("stop_token_ids", id, 0, vocabulary - 1);
    (void)StopStrings(stop_strings);  // refuses an empty one
    require(stop_strings.empty() || token_bytes, "token_bytes", "nothing", "the tokens' bytes, to find stop_strings");
    if (temperature != 0) temperature_range.check("temperature, where it is not 0", temperature);
    require(!sampler || temperature == 0, "sampler", fmt::format("beside temperature {}", temperature),
            "temperature 0: a sampler has its own");
    truncation.check(), draft_truncation.value_or(truncation).check();
    min_confidence_range.check("min_confidence", min_confidence);
    return *this;
  }
};

}  // namespace K3SPEC_NAMESPACE
