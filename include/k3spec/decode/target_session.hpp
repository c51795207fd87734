#pragma once
/// \file
/// One sequence on its way through the target: forwards with their hidden states and logits, and taking tokens back
/// after a rejection. All memory is planned when it is made.
/// defines: TargetSession

#include <algorithm>
#include <cmath>
#include <span>

#include <k3spec/decode/decode_options.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/target/forward.hpp>

namespace k3spec {

/// Config is the target's.
template <class Config, Element T>
class TargetSession {
 public:
  using Target = FrozenTarget<Config, T>;
  using S = accumulate_t<T>;
  static constexpr index_t hidden = Config::hidden_size, vocab = Config::vocab_size;

  /// \param taps      hidden states that each forward keeps
  /// \param capacity  positions, the prompt's and the drafted ones included
  /// \param rows      the most tokens of one forward
  /// \param choices   the most of them that logits are wanted for
  /// \param rollback  the most tokens of a forward that can be taken back
  TargetSession(const Target& target, std::vector<Tap> taps, index_t capacity, index_t rows, index_t choices,
                index_t rollback)
      : target_(target),
        taps_(std::move(taps)),
        state_(StateSize{1, capacity, rollback}),
        scratch_(Target::scratch_bytes(1, rows)),
        last_(checked_product(rows, hidden)),
        tapped_(checked_product(rows, width())),
        logits_(checked_product(choices, vocab)),
        top_(choices) {}

  /// Starts a new sequence.
  void reset() { state_.reset(0); }

  /// Runs 1 to `rows` ids behind what was kept so far. logits() are then those after each of the last `choices` ids.
  void forward(const Cpu& cpu, std::span<const index_t> ids, index_t choices) {
    const auto n = static_cast<index_t>(ids.size());
    const Matrix<T> last(last_.data(), n, hidden);
    target_.forward(cpu, state_, Matrix<const index_t>(ids.data(), 1, n),
                    {last, taps_, Matrix<T>(tapped_.data(), n, width())}, scratch_);
    choices_ = choices;
    if (choices > 0) target_.compute_logits(cpu, last.rows(n - choices, choices), logits());
  }

  /// Keeps the first n tokens of the last forward.
  void accept(index_t n) { state_.accept(0, n); }

  /// [choices, vocabulary] of the last forward, for the caller to change.
  Matrix<S> logits() { return Matrix<S>(logits_.data(), choices_, vocab); }
  /// The token of the largest logit in each of their rows.
  std::span<const index_t> top(const Cpu& cpu) {
    argmax(cpu, logits(), Vector<index_t>(top_.data(), choices_));
    return {top_.data(), static_cast<std::size_t>(choices_)};
  }
  /// How many of these rows, from the first, have a finite largest logit and no NaN, as top found them.
  index_t sound() const {
    index_t r = 0;
    while (r < choices_ && std::isfinite(logits_.data()[r * vocab + top_.data()[r]])) ++r;
    return r;
  }
  /// Tapped states of the last forward's first n tokens, [n, taps · hidden].
  Matrix<const T> tapped(index_t n) const { return Matrix<const T>(tapped_.data(), n, width()); }
  /// Positions that are kept: the position of the next token that forward runs.
  index_t length() const { return state_.length(0); }

 private:
  index_t width() const { return static_cast<index_t>(taps_.size()) * hidden; }

  const Target& target_;
  std::vector<Tap> taps_;
  typename Target::State state_;
  Arena scratch_;
  Buffer<T> last_, tapped_;
  Buffer<S> logits_;
  Buffer<index_t> top_;
  index_t choices_ = 0;
};

}  // namespace k3spec
