#pragma once
/// \file
/// A hook that changes a token's logits by the text before it: logit bias, penalties, bans, grammars. Decoding calls it
/// for each row of the target's logits, and in verification a row's text has the drafted tokens before it. So plain and
/// speculative decoding choose from the same logits, and a draft stays lossless.
/// defines: TextSoFar, LogitProcessor, LogitBias, Penalties, in_turn

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// The tokens before the one to be chosen, the first `prompt` of which were given.
struct TextSoFar {
  std::span<const index_t> tokens;
  index_t prompt = 0;

  index_t size() const { return static_cast<index_t>(tokens.size()); }
  std::span<const index_t> generated() const { return tokens.subspan(static_cast<std::size_t>(prompt)); }
};

/// Any f(text, logits) with a TextSoFar and the row of logits as a span of float or double, which it changes in place:
/// -infinity bans a token. What it does must depend on its arguments only, for a row may be processed more than once,
/// or for drafted tokens that are then rejected. What it throws for a row ends a text that comes to that row, and no
/// other. It must not allocate if decoding is not to. A decoder has a copy of its own; none: logits stay as they are.
class LogitProcessor {
 public:
  LogitProcessor() = default;
  template <class F>
    requires(
        std::is_invocable_v<F&, TextSoFar, std::span<float>>&& std::is_invocable_v<F&, TextSoFar, std::span<double>> &&
        !std::is_same_v<F, LogitProcessor>)
  LogitProcessor(F f) : single_(f), wide_(std::move(f)) {}

  explicit operator bool() const { return static_cast<bool>(single_); }
  void operator()(const TextSoFar& text, std::span<float> logits) const {
    if (single_) single_(text, logits);
  }
  void operator()(const TextSoFar& text, std::span<double> logits) const {
    if (wide_) wide_(text, logits);
  }

 private:
  std::function<void(const TextSoFar&, std::span<float>)> single_;
  std::function<void(const TextSoFar&, std::span<double>)> wide_;
};

/// Adds to the logits of some tokens; -infinity bans one.
class LogitBias {
 public:
  /// Adds a bias to each of some tokens' logits.
  /// \throws Error on a bias that is NaN or infinity, or an id outside the vocabulary
  LogitBias(std::vector<std::pair<index_t, double>> biases, index_t vocabulary)
      : biases_(std::move(biases)), vocabulary_(vocabulary) {
    for (const auto& [token, bias] : biases_) {
      if (token < 0 || token >= vocabulary) {
        throw Error("logit bias: token", std::to_string(token), fmt::format("0 to {}", vocabulary - 1));
      }
      if (!(bias < HUGE_VAL)) throw Error("logit bias", fmt::format("{}", bias), "a number or -inf");
    }
  }

  /// Changes a row's logits.
  /// \throws Error on other logits than the vocabulary's
  template <class S>
  void operator()(const TextSoFar&, std::span<S> logits) const {
    require_count("logit bias: logits", static_cast<index_t>(logits.size()), vocabulary_);
    for (const auto& [token, bias] : biases_) {
      S& logit = logits[static_cast<std::size_t>(token)];
      logit = static_cast<S>(static_cast<double>(logit) + bias);
    }
  }

 private:
  std::vector<std::pair<index_t, double>> biases_;
  index_t vocabulary_;
};

/// Penalties on the tokens that a text has already.
struct PenaltyOptions {
  /// Logits of tokens that the text has, the prompt included, are divided by it where positive, else multiplied
  /// (Keskar et al., arXiv 1909.05858). 1: none.
  double repetition = 1;
  /// Taken from the logit of a token that was generated, once, and as often as it was. 0: none.
  double presence = 0, frequency = 0;

  bool operator==(const PenaltyOptions&) const = default;
};

/// Repetition first, then presence and frequency.
class Penalties {
 public:
  /// Penalties for texts of one vocabulary.
  /// \throws Error on a penalty out of range
  Penalties(const PenaltyOptions& options, index_t vocabulary)
      : options_(options), times_(static_cast<std::size_t>(vocabulary)) {
    const auto finite = [](const char* name, double x) {
      if (!std::isfinite(x)) throw Error(name, fmt::format("{}", x), "a finite number");
    };
    finite("repetition penalty", options.repetition);
    finite("presence penalty", options.presence), finite("frequency penalty", options.frequency);
    if (options.repetition <= 0) {
      throw Error("repetition penalty", fmt::format("{}", options.repetition), "a number > 0");
    }
  }

  /// Changes a row's logits by the text before it.
  /// \throws Error on other logits than the vocabulary's, a token outside it, or a prompt longer than the text
  template <class S>
  void operator()(const TextSoFar& text, std::span<S> logits) {
    const auto vocabulary = static_cast<index_t>(times_.size());
    require_count("penalties: logits", static_cast<index_t>(logits.size()), vocabulary);
    require_part("penalties: prompt", 0, text.prompt, text.size());
    require_ids("penalties: tokens", Vector<const index_t>(text.tokens.data(), text.size()), vocabulary);
    if (options_.repetition != 1) repetition(text.tokens, logits);
    if (options_.presence != 0 || options_.frequency != 0) repeat(text.generated(), logits);
  }

 private:
  /// Calls f(logit, times) once for each token that there is; times_ is all 0 before and after.
  template <class S, class F>
  void for_each_token(std::span<const index_t> tokens, std::span<S> logits, F&& f) {
    for (const index_t t : tokens) ++times_[static_cast<std::size_t>(t)];
    for (const index_t t : tokens) {
      index_t& times = times_[static_cast<std::size_t>(t)];
      if (times == 0) continue;
      S& logit = logits[static_cast<std::size_t>(t)];
      logit = static_cast<S>(f(static_cast<double>(logit), static_cast<double>(times)));
      times = 0;
    }
  }
  template <class S>
  void repetition(std::span<const index_t> tokens, std::span<S> logits) {
    for_each_token(tokens, logits,
                   [&](double x, double) { return x > 0 ? x / options_.repetition : x * options_.repetition; });
  }
  template <class S>
  void repeat(std::span<const index_t> tokens, std::span<S> logits) {
    for_each_token(tokens, logits,
                   [&](double x, double times) { return x - options_.presence - options_.frequency * times; });
  }

  PenaltyOptions options_;
  std::vector<index_t> times_;
};

/// One processor after the other.
template <class... F>
LogitProcessor in_turn(F... f) {
  return [all = std::tuple<F...>(std::move(f)...)](const TextSoFar& text, auto logits) mutable {
    std::apply([&](auto&... each) { (each(text, logits), ...); }, all);
  };
}

}  // namespace K3SPEC_NAMESPACE
