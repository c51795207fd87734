#pragma once
/// \file
/// Plain decoding: one target forward per token. What speculative decoding must equal: token for token when greedy, in
/// distribution at a temperature.
/// defines: PlainDecoder, require_prompt, prefill, throw_no_largest_logit, choose_token

#include <string>

#include <k3spec/config/complete.hpp>
#include <k3spec/decode/continuation.hpp>
#include <k3spec/decode/target_session.hpp>

namespace K3SPEC_NAMESPACE {

/// Refuses a prompt for which there is no room.
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
/// \throws Error on chunks of nothing
template <class Session, class F>
void prefill(const Cpu& cpu, Session& session, std::span<const index_t> prompt, index_t chunk, F&& after) {
  if (chunk < 1) throw Error("prefill: chunk", std::to_string(chunk), "at least 1");
  session.reset();
  const auto n = static_cast<index_t>(prompt.size());
  for (index_t begin = 0; begin < n; begin += chunk) {
    const index_t count = std::min(chunk, n - begin);
    session.forward(cpu, prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                    begin + count == n ? 1 : 0);
    after(begin, count);
  }
}

/// Ends a text that has no next token.
/// \param position  of the token that was to be chosen, the prompt's first token being 0
[[noreturn]] inline void throw_no_largest_logit(index_t position) {
  throw Error("target: logits of position " + std::to_string(position), "NaN among them or no finite largest one",
              "a finite largest one to choose by");
}

/// The target's token behind a text, from its logits [1, vocabulary], which are changed.
/// \throws Error on logits without a finite largest one
template <class S>
index_t choose_token(const Cpu& cpu, const DecodeOptions& options, const Sampling& sampling, const Matrix<S>& logits,
                     const TextSoFar& text) {
  options.logit_processor(text, std::span<S>(logits.data(), static_cast<std::size_t>(logits.size())));
  const auto token = sampling.choose(cpu, logits, Decision::token, text.size());
  if (!token) throw_no_largest_logit(text.size());
  return *token;
}

/// Decoding without a draft: a forward of the target for each token.
template <ForTarget Given, Element T>
class PlainDecoder {
  using Config = complete_target_t<Given>;

 public:
  /// A decoder for texts of up to `capacity` positions.
  /// \param capacity  the most positions of prompt and generated tokens together
  /// \throws Error on options out of range; those of a draft do not matter here
  PlainDecoder(const FrozenTarget<Given, T>& target, index_t capacity, const DecodeOptions& options)
      : options_(options.checked(capacity, Config::vocab_size)),
        capacity_(capacity),
        text_(options),
        session_(target, {}, session_size(capacity, options)) {}

  /// Bytes that a decoder holds beside the target.
  /// \throws Error on options out of range
  static std::size_t bytes(index_t capacity, const DecodeOptions& options) {
    options.checked(capacity, Config::vocab_size);
    return TargetSession<Given, T>::bytes(0, session_size(capacity, options));
  }

  /// What generate draws from now on; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  /// Generates behind a prompt.
  /// \throws Error on an empty prompt or one that leaves no room, and on logits without a finite largest one
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    text_.begin(prompt);
    if (text_.ended()) return text_.take();
    prefill(cpu, session_, prompt, options_.prefill_chunk, [](index_t, index_t) {});
    text_.push(choose_token(cpu, options_, options_.sampling(), session_.logits(), text_.text()));
    while (!text_.ended()) {
      session_.forward(cpu, text_.last(), 1);
      ++text_.result().target_forwards;
      text_.push(choose_token(cpu, options_, options_.sampling(), session_.logits(), text_.text()));
    }
    return text_.take();
  }

 private:
  static TargetSessionSize session_size(index_t capacity, const DecodeOptions& options) {
    return {.capacity = capacity, .rows = std::min(options.prefill_chunk, capacity), .choices = 1, .rollback = 0};
  }

  DecodeOptions options_;
  index_t capacity_;
  Continuation text_;
  TargetSession<Given, T> session_;
};

}  // namespace K3SPEC_NAMESPACE
