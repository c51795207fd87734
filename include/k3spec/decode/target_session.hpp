#pragma once
/// \file
/// Sequences on their way through the target: forwards over new tokens of all of them with their hidden states and
/// logits, and taking tokens back after a rejection, of each sequence another number. All memory is planned when it is
/// made.
/// defines: TargetSessionSize, TargetSession

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <k3spec/config/complete.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/target/forward.hpp>

namespace K3SPEC_NAMESPACE {

/// What a target session plans its memory for.
struct TargetSessionSize {
  index_t capacity;  ///< positions of each sequence, the prompt's and the drafted ones included
  index_t rows;      ///< the most tokens of one forward, of all sequences together
  index_t choices;   ///< the most of them that logits are wanted for
  index_t rollback;  ///< the most tokens of a forward, of each sequence, that can be taken back
  index_t sequences = 1;
};

/// Config is the target's.
template <ForTarget Given, Element T>
class TargetSession {
  using Config = complete_target_t<Given>;

 public:
  using Target = FrozenTarget<Given, T>;
  using S = accumulate_t<T>;
  static constexpr index_t hidden = Config::hidden_size, vocab = Config::vocab_size;

  /// Bytes that a session holds.
  /// \param taps  how many hidden states each forward keeps
  /// \throws Error on sizes that are negative or cannot be addressed
  static std::size_t bytes(index_t taps, const TargetSessionSize& size) {
    const Elements e = elements(taps, size);
    return Target::State::bytes(state_size(size)) + scratch_bytes(size) +
           sizeof(T) * static_cast<std::size_t>(e.last + e.tapped + e.chosen) +
           sizeof(S) * static_cast<std::size_t>(e.logits) + sizeof(index_t) * static_cast<std::size_t>(size.choices) +
           sizeof(Place) * static_cast<std::size_t>(size.sequences);
  }

  /// A session without a text.
  /// \param taps  hidden states that each forward keeps
  TargetSession(const Target& target, const std::vector<Tap>& taps, const TargetSessionSize& size)
      : TargetSession(target, taps, size, elements(static_cast<index_t>(taps.size()), size)) {}

  /// Starts a sequence anew.
  void reset(index_t sequence = 0) { state_.reset(sequence); }

  /// Runs 1 to `rows` ids, counts[b] of sequence b behind what was kept of it so far. logits() are then those after
  /// each of the last choices[b] ids of every sequence.
  /// \throws Error, nothing run, on more ids or choices than planned, on counts that are not as many as ids in all, and
  ///         on choices beyond them
  void forward(const Cpu& cpu, std::span<const index_t> ids, std::span<const index_t> counts,
               std::span<const index_t> choices) {
    const auto n = static_cast<index_t>(ids.size());
    check(n, counts, choices);
    const Matrix<T> last(last_.data(), n, hidden);
    target_.forward(cpu, state_, NewTokens(ids, counts), {last, taps_, Matrix<T>(tapped_.data(), n, width())},
                    scratch_);
    choices_ = 0;
    index_t row = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      places_[b] = {row, choices_, choices[b], counts[b]};
      row += counts[b];
      std::copy_n(last.row(row - choices[b]), choices[b] * hidden, chosen_.data() + choices_ * hidden);
      choices_ += choices[b];
    }
    if (choices_ > 0) target_.compute_logits(cpu, Matrix<T>(chosen_.data(), choices_, hidden), logits());
  }
  /// The same of one sequence.
  void forward(const Cpu& cpu, std::span<const index_t> ids, index_t choices) {
    const auto n = static_cast<index_t>(ids.size());
    forward(cpu, ids, std::span(&n, 1), std::span(&choices, 1));
  }

  /// Keeps the first n tokens of the last forward that had any of a sequence.
  void accept(index_t n) { accept(0, n); }
  void accept(index_t sequence, index_t n) { state_.accept(sequence, n); }

  /// [choices, vocabulary] of the last forward, for the caller to change.
  Matrix<S> logits() { return Matrix<S>(logits_.data(), choices_, vocab); }
  /// Those of one sequence.
  Matrix<S> logits_of(index_t sequence) { return logits().rows(place(sequence).choice, place(sequence).choices); }
  /// The token of the largest logit in each of their rows.
  std::span<const index_t> top(const Cpu& cpu) {
    argmax(cpu, logits(), Vector<index_t>(top_.data(), choices_));
    return {top_.data(), static_cast<std::size_t>(choices_)};
  }
  /// Those of one sequence, as top(cpu) found them.
  std::span<const index_t> top_of(index_t sequence) const {
    return {top_.data() + place(sequence).choice, static_cast<std::size_t>(place(sequence).choices)};
  }
  /// How many of a sequence's rows, from the first, have a finite largest logit and no NaN, as top found them.
  index_t sound(index_t sequence = 0) const {
    const index_t begin = place(sequence).choice;
    index_t r = 0;
    while (r < place(sequence).choices && is_sound(begin + r)) ++r;
    return r;
  }
  /// Tapped states of the first n tokens that the last forward ran of the first sequence, [n, taps · hidden].
  /// \throws Error on more than one forward may have
  Matrix<const T> tapped(index_t n) const {
    require_part("target session: tapped", 0, n, size_.rows);
    return Matrix<const T>(tapped_.data(), n, width());
  }
  /// Those of the first counts[b] tokens of every sequence, moved together; once after a forward.
  /// \returns [rows, taps · hidden]
  /// \throws Error on counts of another number of sequences, or of tokens that they did not run
  Matrix<const T> gather_tapped(std::span<const index_t> counts) {
    require_count("target session: counts", static_cast<index_t>(counts.size()), state_.sequences(), " sequences");
    for (std::size_t b = 0; b < counts.size(); ++b) {
      require_part("target session: counts", 0, counts[b], places_[b].rows);
    }
    index_t row = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      const T* from = tapped_.data() + places_[b].row * width();
      T* to = tapped_.data() + row * width();
      if (from != to) std::copy(from, from + counts[b] * width(), to);
      row += counts[b];
    }
    return tapped(row);
  }
  /// Positions that are kept: the position of the next token that forward runs.
  index_t length(index_t sequence = 0) const { return state_.length(sequence); }

 private:
  /// Where a sequence's rows of the last forward begin, and its choices, and how many there are of either.
  struct Place {
    index_t row = 0, choice = 0, choices = 0, rows = 0;
  };

  struct Elements {
    index_t last, tapped, chosen, logits;
  };
  static Elements elements(index_t taps, const TargetSessionSize& size) {
    return {checked_product(size.rows, hidden), checked_product(size.rows, taps, hidden),
            checked_product(size.choices, hidden), checked_product(size.choices, vocab)};
  }
  static StateSize state_size(const TargetSessionSize& size) { return {size.sequences, size.capacity, size.rollback}; }
  static std::size_t scratch_bytes(const TargetSessionSize& size) {
    return size.sequences == 1 ? Target::scratch_bytes(1, size.rows)
                               : Target::ragged_scratch_bytes(size.sequences, size.rows);
  }

  TargetSession(const Target& target, const std::vector<Tap>& taps, const TargetSessionSize& size, const Elements& e)
      : target_(target),
        taps_(taps),
        size_(size),
        state_(state_size(size)),
        scratch_(scratch_bytes(size)),
        last_(e.last),
        tapped_(e.tapped),
        chosen_(e.chosen),
        logits_(e.logits),
        top_(size.choices),
        places_(static_cast<std::size_t>(size.sequences)) {}

  void check(index_t n, std::span<const index_t> counts, std::span<const index_t> choices) const {
    const index_t sequences = state_.sequences();
    require_part("target session: ids", 0, n, size_.rows);
    require_count("target session: counts", static_cast<index_t>(counts.size()), sequences, " sequences");
    require_count("target session: choices", static_cast<index_t>(choices.size()), sequences, " sequences");
    index_t left = top_.size();
    for (std::size_t b = 0; b < counts.size(); ++b) {
      require_part("target session: choices", 0, choices[b], std::min(left, counts[b]));
      left -= choices[b];
    }
  }

  bool is_sound(index_t row) const { return std::isfinite(logits_.data()[row * vocab + top_.data()[row]]); }
  const Place& place(index_t sequence) const {
    require_index("target session: sequence", sequence, state_.sequences());
    return places_[static_cast<std::size_t>(sequence)];
  }
  index_t width() const { return static_cast<index_t>(taps_.size()) * hidden; }

  const Target& target_;
  std::vector<Tap> taps_;
  TargetSessionSize size_;
  typename Target::State state_;
  Arena scratch_;
  Buffer<T> last_, tapped_, chosen_;
  Buffer<S> logits_;
  Buffer<index_t> top_;
  std::vector<Place> places_;
  index_t choices_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
