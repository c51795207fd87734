#pragma once
/// \file
/// Plain decoding: one target forward per token. What speculative decoding must equal: token for token when greedy, in
/// distribution at a temperature.
/// defines: PlainDecoder, require_prompt, prefill

#include <string>

#include <k3spec/decode/target_session.hpp>

namespace k3spec {

/// \throws Error on an empty prompt or too many tokens
inline void require_prompt(std::span<const index_t> prompt, index_t room, const DecodeOptions& options) {
  if (prompt.empty()) throw Error("prompt", "no token", "at least one");
  const auto length = static_cast<index_t>(prompt.size());
  if (length > room) throw Error("prompt: tokens", std::to_string(length), "at most " + std::to_string(room));
  if (options.max_new_tokens <= room - length) return;
  throw Error("max_new_tokens", std::to_string(options.max_new_tokens),
              "0 to " + std::to_string(room - length) + " after this prompt");
}

/// Runs a prompt in chunks and calls after(first position, tokens) after each. The last one leaves logits for the first
/// generated token.
template <class Session, class F>
void prefill(const Cpu& cpu, Session& session, std::span<const index_t> prompt, index_t chunk, F&& after) {
  session.reset();
  const auto n = static_cast<index_t>(prompt.size());
  for (index_t begin = 0; begin < n; begin += chunk) {
    const index_t count = std::min(chunk, n - begin);
    session.forward(cpu, prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                    begin + count == n ? 1 : 0);
    after(begin, count);
  }
}

template <class Config, Element T>
class PlainDecoder {
 public:
  /// \param capacity  the most positions of prompt and generated tokens together
  /// \throws Error on options out of range; those of a draft do not matter here
  PlainDecoder(const FrozenTarget<Config, T>& target, index_t capacity, const DecodeOptions& options)
      : options_(options.checked(capacity)),
        capacity_(capacity),
        session_(target, {}, capacity, std::min(options.prefill_chunk, capacity), 1, 0) {}

  /// What generate draws from now on; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  /// \throws Error on an empty prompt or one that leaves no room
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    DecodeResult result;
    if (options_.max_new_tokens == 0) return result;
    result.tokens.reserve(static_cast<std::size_t>(options_.max_new_tokens));
    prefill(cpu, session_, prompt, options_.prefill_chunk, [](index_t, index_t) {});
    result.tokens.push_back(choose(cpu));
    while (!options_.is_complete(result)) {
      session_.forward(cpu, std::span(&result.tokens.back(), 1), 1);
      ++result.target_forwards;
      result.tokens.push_back(choose(cpu));
    }
    return result;
  }

 private:
  index_t choose(const Cpu& cpu) {
    return options_.sampling().choose(cpu, session_.logits(), Decision::token, session_.length());
  }

  DecodeOptions options_;
  index_t capacity_;
  TargetSession<Config, T> session_;
};

}  // namespace k3spec
