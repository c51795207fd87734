#pragma once
/// \file
/// Plain decoding: one target forward per token. What speculative decoding must equal: token for token when greedy, in
/// distribution at a temperature.
/// defines: PlainDecoder, require_prompt, prefill

#include <string>

#include <k3spec/decode/continuation.hpp>
#include <k3spec/decode/next_token.hpp>
#include <k3spec/decode/target_rows.hpp>

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
template <Device D, TargetEngine<D> Engine, class F>
void prefill(const D& device, Engine& engine, std::span<const index_t> prompt, index_t chunk, F&& after) {
  if (chunk < 1) throw Error("prefill: chunk", std::to_string(chunk), "at least 1");
  engine.reset(0);
  const auto n = static_cast<index_t>(prompt.size());
  for (index_t begin = 0; begin < n; begin += chunk) {
    const index_t count = std::min(chunk, n - begin);
    const index_t choices = begin + count == n ? 1 : 0;
    engine.forward(device, prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                   std::span(&count, 1), std::span(&choices, 1));
    after(begin, count);
  }
}

/// Decoding without a draft: a forward of the target for each token.
/// \tparam Given  the config of a Kimi K3 target, or an engine (TargetEngine) of any other
template <ForEngine Given, Element T, Device D = Cpu>
class PlainDecoder {
  using Engine = target_engine_t<Given, T, D>;
  using Next = NextToken<D, accumulate_t<T>>;

 public:
  /// A decoder for texts of up to `capacity` positions.
  /// \param capacity  the most positions of prompt and generated tokens together
  /// \throws Error on options out of range; those of a draft do not matter here
  PlainDecoder(const typename Engine::Target& target, index_t capacity, const DecodeOptions& options,
               const D& device = D{})
      : options_(options.checked(capacity, Engine::vocabulary)),
        capacity_(capacity),
        text_(options),
        engine_(target, {}, session_size(capacity, options), device),
        next_(device, Engine::vocabulary) {}

  /// Bytes that a decoder holds beside the target.
  /// \throws Error on options out of range
  static std::size_t bytes(index_t capacity, const DecodeOptions& options) {
    options.checked(capacity, Engine::vocabulary);
    return Engine::bytes(0, session_size(capacity, options)) + Next::bytes(Engine::vocabulary);
  }

  /// What generate draws from now on; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  /// Generates behind a prompt.
  /// \throws Error on an empty prompt or one that leaves no room, and on logits without a finite largest one
  DecodeResult generate(const D& device, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    text_.begin(prompt);
    if (text_.ended()) return text_.take();
    prefill(device, engine_, prompt, options_.prefill_chunk, [](index_t, index_t) {});
    push_next(device);
    constexpr index_t one = 1;
    while (!text_.ended()) {
      engine_.forward(device, text_.last(), std::span(&one, 1), std::span(&one, 1));
      ++text_.result().target_forwards;
      push_next(device);
    }
    return text_.take();
  }

 private:
  static TargetSessionSize session_size(index_t capacity, const DecodeOptions& options) {
    return {.capacity = capacity, .rows = std::min(options.prefill_chunk, capacity), .choices = 1, .rollback = 0};
  }

  void push_next(const D& device) {
    text_.push(next_.choose(device, options_, options_.sampling(), engine_.logits(), text_.text()));
  }

  DecodeOptions options_;
  index_t capacity_;
  Continuation text_;
  Engine engine_;
  Next next_;
};

}  // namespace K3SPEC_NAMESPACE
