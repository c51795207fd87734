#pragma once
/// \file
/// Sequences on their way through the target: forwards over new tokens of all of them with their hidden states and
/// logits, and taking tokens back after a rejection, of each sequence another number. All memory is planned when it is
/// made.
/// defines: TargetSessionSize, TargetSession

#include <algorithm>
#include <span>
#include <vector>

#include <k3spec/config/complete.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/ops/move_rows.hpp>
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
template <ForTarget Given, Element T, Device D = Cpu>
class TargetSession {
  using Config = complete_target_t<Given>;
  using E = element_t<D, T>;

 public:
  using Target = FrozenTarget<Given, T, D>;
  using S = accumulate_t<E>;
  static constexpr index_t hidden = Config::hidden_size, vocabulary = Config::vocab_size;

  /// Bytes that a session holds.
  /// \param taps  how many hidden states each forward keeps
  /// \throws Error on sizes that are negative or cannot be addressed
  static std::size_t bytes(index_t taps, const TargetSessionSize& size) {
    const Elements e = elements(taps, size);
    return State::bytes(state_size(size)) + scratch_bytes(size) +
           sizeof(T) * static_cast<std::size_t>(e.last + e.tapped + e.kept + e.chosen) +
           sizeof(S) * static_cast<std::size_t>(e.logits) + TokenChoices<D>::bytes(size.choices) +
           move_bytes(size.choices) + move_bytes(size.rows) +
           (sizeof(Place) + sizeof(char)) * static_cast<std::size_t>(size.sequences);
  }

  /// A session without a text.
  /// \param taps  hidden states that each forward keeps
  TargetSession(const Target& target, const std::vector<Tap>& taps, const TargetSessionSize& size,
                const D& device = D{})
      : TargetSession(target, taps, size, device, elements(static_cast<index_t>(taps.size()), size)) {}

  /// Starts a sequence anew.
  /// \throws Error on a sequence that is not there
  void reset(index_t sequence = 0) {
    require_index("target session: sequence", sequence, state_.sequences());
    is_new_[static_cast<std::size_t>(sequence)] = 1;
  }

  /// Runs 1 to `rows` ids, counts[b] of sequence b behind what was kept of it so far. logits() are then those after
  /// each of the last choices[b] ids of every sequence.
  /// \throws Error, nothing run, on more ids or choices than planned, on counts that are not as many as ids in all, and
  ///         on choices beyond them
  void forward(const D& device, std::span<const index_t> ids, std::span<const index_t> counts,
               std::span<const index_t> choices) {
    const auto n = static_cast<index_t>(ids.size());
    check(n, counts, choices);
    begin_anew(device);
    const Matrix<E> last(last_.data(), n, hidden);
    target_.forward(device, state_, NewTokens(ids, counts), {last, taps_, Matrix<E>(tapped_.data(), n, width())},
                    scratch_);
    place_choices(counts, choices);
    if (choices_ == 0) return;
    of_choices_.upload(device);
    const Matrix<E> chosen(chosen_.data(), choices_, hidden);
    move_rows(device, to_choices_, choices_, last, chosen);
    target_.compute_logits(device, chosen, logits());
  }
  /// The same of one sequence.
  void forward(const D& device, std::span<const index_t> ids, index_t choices) {
    const auto n = static_cast<index_t>(ids.size());
    forward(device, ids, std::span(&n, 1), std::span(&choices, 1));
  }

  /// Keeps the first n tokens of the last forward that had any of a sequence.
  void accept(index_t n) { accept(0, n); }
  void accept(index_t sequence, index_t n) { state_.accept(sequence, n); }

  /// [choices, vocabulary] of the last forward, for the caller to change.
  Matrix<S> logits() { return Matrix<S>(logits_.data(), choices_, vocabulary); }
  /// Those of one sequence.
  Matrix<S> logits_of(index_t sequence) { return logits().rows(place(sequence).choice, place(sequence).choices); }
  /// The token of the largest logit in each of their rows, -1 where that is not finite or a NaN among them.
  std::span<const index_t> top(const D& device) {
    tops_.clear();
    for (index_t r = 0; r < choices_; ++r) tops_.add({.row = r});
    return top_ = tops_.choose(device, logits());
  }
  /// Those of one sequence, as top(device) found them; none before.
  std::span<const index_t> top_of(index_t sequence) const {
    const Place& p = place(sequence);
    if (top_.empty()) return {};
    return top_.subspan(static_cast<std::size_t>(p.choice), static_cast<std::size_t>(p.choices));
  }
  /// How many of a sequence's rows, from the first, have a finite largest logit and no NaN, as top found them.
  index_t sound(index_t sequence = 0) const {
    const auto tops = top_of(sequence);
    return std::find(tops.begin(), tops.end(), -1) - tops.begin();
  }
  /// Tapped states of the first n tokens that the last forward ran of the first sequence, [n, taps · hidden].
  /// \throws Error on more than one forward may have
  Matrix<const E> tapped(index_t n) const {
    require_part("target session: tapped", 0, n, size_.rows);
    return Matrix<const E>(tapped_.data(), n, width());
  }
  /// Those of the first counts[b] tokens of every sequence, one behind the other, until the next forward.
  /// \returns [rows, taps · hidden]
  /// \throws Error on counts of another number of sequences, or of tokens that they did not run
  Matrix<const E> gather_tapped(const D& device, std::span<const index_t> counts) {
    require_count("target session: counts", static_cast<index_t>(counts.size()), state_.sequences(), " sequences");
    index_t rows = 0;
    bool is_moved = false;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      require_part("target session: counts", 0, counts[b], places_[b].rows);
      is_moved = is_moved || (counts[b] > 0 && places_[b].row != rows);
      for (index_t t = 0; t < counts[b]; ++t, ++rows) to_kept_.host(rows) = {places_[b].row + t, rows};
    }
    if (!is_moved || width() == 0) return tapped(rows);
    of_kept_.upload(device);
    const Matrix<E> kept(kept_.data(), rows, width());
    move_rows(device, to_kept_, rows, tapped(size_.rows), kept);
    return kept;
  }
  /// Positions that are kept: the position of the next token that forward runs.
  index_t length(index_t sequence = 0) const {
    const index_t length = state_.length(sequence);
    return is_new_[static_cast<std::size_t>(sequence)] != 0 ? 0 : length;
  }

 private:
  using State = typename Target::State;
  /// Where a sequence's rows of the last forward begin, and its choices, and how many there are of either.
  struct Place {
    index_t row = 0, choice = 0, choices = 0, rows = 0;
  };

  struct Elements {
    index_t last, tapped, kept, chosen, logits;
  };
  static Elements elements(index_t taps, const TargetSessionSize& size) {
    const index_t tapped = checked_product(size.rows, taps, hidden);
    return {checked_product(size.rows, hidden), tapped, size.sequences > 1 ? tapped : 0,
            checked_product(size.choices, hidden), checked_product(size.choices, vocabulary)};
  }
  static std::size_t move_bytes(index_t moves) { return detail::piece<RowMove>(moves); }
  static StateSize state_size(const TargetSessionSize& size) { return {size.sequences, size.capacity, size.rollback}; }
  static std::size_t scratch_bytes(const TargetSessionSize& size) {
    return size.sequences == 1 ? Target::scratch_bytes(1, size.rows)
                               : Target::ragged_scratch_bytes(size.sequences, size.rows);
  }

  TargetSession(const Target& target, const std::vector<Tap>& taps, const TargetSessionSize& size, const D& device,
                const Elements& e)
      : target_(target),
        taps_(taps),
        size_(size),
        state_(state_size(size), device),
        scratch_(device, scratch_bytes(size)),
        last_(device, e.last),
        tapped_(device, e.tapped),
        kept_(device, e.kept),
        chosen_(device, e.chosen),
        logits_(device, e.logits),
        tops_(device, size.choices),
        of_choices_(device, move_bytes(size.choices)),
        of_kept_(device, move_bytes(size.rows)),
        to_choices_(of_choices_.template take<RowMove>(size.choices)),
        to_kept_(of_kept_.template take<RowMove>(size.rows)),
        places_(static_cast<std::size_t>(size.sequences)),
        is_new_(places_.size()) {}

  void check(index_t n, std::span<const index_t> counts, std::span<const index_t> choices) const {
    const index_t sequences = state_.sequences();
    require_part("target session: ids", 0, n, size_.rows);
    require_count("target session: counts", static_cast<index_t>(counts.size()), sequences, " sequences");
    require_count("target session: choices", static_cast<index_t>(choices.size()), sequences, " sequences");
    index_t left = size_.choices;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      require_part("target session: choices", 0, choices[b], std::min(left, counts[b]));
      left -= choices[b];
    }
  }

  /// Empties the sequences that are to be.
  void begin_anew(const D& device) {
    for (std::size_t b = 0; b < is_new_.size(); ++b) {
      if (is_new_[b] != 0) state_.reset(static_cast<index_t>(b), device);
      is_new_[b] = 0;
    }
  }

  /// Sets places_ and the moves of chosen rows.
  void place_choices(std::span<const index_t> counts, std::span<const index_t> choices) {
    choices_ = 0, top_ = {};
    index_t row = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      places_[b] = {row, choices_, choices[b], counts[b]};
      row += counts[b];
      for (index_t r = row - choices[b]; r < row; ++r, ++choices_) to_choices_.host(choices_) = {r, choices_};
    }
  }

  const Place& place(index_t sequence) const {
    require_index("target session: sequence", sequence, state_.sequences());
    return places_[static_cast<std::size_t>(sequence)];
  }
  index_t width() const { return static_cast<index_t>(taps_.size()) * hidden; }

  const Target& target_;
  std::vector<Tap> taps_;
  TargetSessionSize size_;
  State state_;
  arena_t<D> scratch_;
  buffer_t<D, T> last_, tapped_, kept_, chosen_;
  buffer_t<D, value_t<S>> logits_;
  TokenChoices<D> tops_;
  std::span<const index_t> top_;
  Mirror<D> of_choices_, of_kept_;
  Mirrored<D, RowMove> to_choices_, to_kept_;
  std::vector<Place> places_;
  std::vector<char> is_new_;  // sequences that the next forward empties first
  index_t choices_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
