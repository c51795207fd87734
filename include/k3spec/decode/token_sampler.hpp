#pragma once
/// \file
/// A sampler of one's own: the choice of the next token from a row of the target's processed logits.
///
/// Lossless with it means: the tokens are those of plain decoding, one for one. A drafted token stays where it is what
/// the sampler chooses behind the text before it, and the sampler's choice is the next token at the first place where
/// it is not. Nothing is asked of the draft, whose likeliest tokens are proposed: a sampler that draws takes fewer of
/// them than `temperature` does, whose rules (decode/verify.hpp) keep the distribution alone.
/// defines: Sampler, TokenSampler

#include <concepts>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include <k3spec/decode/logit_processor.hpp>

namespace K3SPEC_NAMESPACE {

/// Any f(text, logits) with a TextSoFar and a row of logits as a span of const float or const double that gives a token
/// of the row. It must depend on its arguments only: what it draws at random belongs to the place in the text, as
/// `Philox(seed).uniform(static_cast<std::uint64_t>(text.size()))` does. What it throws ends the text that comes to
/// that row, and no other. It must not allocate if decoding is not to.
template <class F>
concept Sampler = std::is_invocable_r_v<index_t, F&, const TextSoFar&, std::span<const float>> &&
    std::is_invocable_r_v<index_t, F&, const TextSoFar&, std::span<const double>>;

/// Any of them. A decoder has a copy of its own; none: DecodeOptions::temperature says how tokens are chosen.
class TokenSampler {
 public:
  TokenSampler() = default;
  template <class F>
    requires(Sampler<F> && !std::is_same_v<F, TokenSampler>)
  TokenSampler(F f) : single_(f), wide_(std::move(f)) {}

  explicit operator bool() const { return static_cast<bool>(single_); }
  /// The token behind a text.
  /// \throws Error on one that is none of the row's, and what the sampler throws
  index_t operator()(const TextSoFar& text, std::span<const float> logits) const {
    return checked(single_(text, logits), logits.size());
  }
  index_t operator()(const TextSoFar& text, std::span<const double> logits) const {
    return checked(wide_(text, logits), logits.size());
  }

 private:
  static index_t checked(index_t token, std::size_t vocabulary) {
    require_index("sampler: token", token, static_cast<index_t>(vocabulary));
    return token;
  }

  std::function<index_t(const TextSoFar&, std::span<const float>)> single_;
  std::function<index_t(const TextSoFar&, std::span<const double>)> wide_;
};

}  // namespace K3SPEC_NAMESPACE
