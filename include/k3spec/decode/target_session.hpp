#pragma once
/// \file
/// Sequences on their way through the target: forwards over new tokens of all of them with their hidden states and
/// logits, and taking tokens back after a rejection, of each sequence another number. All memory is planned when it is
/// made.
/// defines: TargetSession

#include <span>
#include <vector>

#include <k3spec/config/complete.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/target_engine.hpp>
#include <k3spec/ops/move_rows.hpp>
#include <k3spec/target/forward.hpp>

namespace K3SPEC_NAMESPACE {

/// Kimi K3's engine, see TargetEngine. Config is the target's.
template <ForTarget Given, Element T, Device D = Cpu>
class TargetSession {
  using Config = complete_target_t<Given>;
  using E = element_t<D, T>;

 public:
  using value_type = T;
  using Target = FrozenTarget<Given, T, D>;
  using S = accumulate_t<E>;
  static constexpr index_t hidden = Config::hidden_size, vocabulary = Config::vocab_size;
  static constexpr index_t num_hidden_layers = Config::num_hidden_layers;

  /// Bytes that a session holds.
  /// \param taps  how many hidden states each forward keeps
  /// \throws Error on sizes that are negative or cannot be addressed
  static std::size_t bytes(index_t taps, const TargetSessionSize& size) {
    const Elements e = elements(taps, size);
    return State::bytes(state_size(size)) + scratch_bytes(size) +
           sizeof(T) * static_cast<std::size_t>(e.last + e.tapped + e.chosen) +
           sizeof(S) * static_cast<std::size_t>(e.logits) + move_bytes(size.choices) +
           sizeof(char) * static_cast<std::size_t>(size.sequences);
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
    require_forward(ids, counts, choices, size_);
    begin_anew(device);
    const Matrix<E> last(last_.data(), n, hidden);
    target_.forward(device, state_, NewTokens(ids, counts), {last, taps_, Matrix<E>(tapped_.data(), n, width())},
                    scratch_);
    choose_rows(counts, choices);
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
  /// Tapped states of the first n tokens that the last forward ran, [n, taps · hidden].
  /// \throws Error on more than one forward may have
  Matrix<const E> tapped(index_t n) const {
    require_part("target session: tapped", 0, n, size_.rows);
    return Matrix<const E>(tapped_.data(), n, width());
  }
  /// Positions that are kept: the position of the next token that forward runs.
  index_t length(index_t sequence = 0) const {
    const index_t length = state_.length(sequence);
    return is_new_[static_cast<std::size_t>(sequence)] != 0 ? 0 : length;
  }

 private:
  using State = typename Target::State;
  struct Elements {
    index_t last, tapped, chosen, logits;
  };
  static Elements elements(index_t taps, const TargetSessionSize& size) {
    return {checked_product(size.rows, hidden), checked_product(size.rows, taps, hidden),
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
        chosen_(device, e.chosen),
        logits_(device, e.logits),
        of_choices_(device, move_bytes(size.choices)),
        to_choices_(of_choices_.template take<RowMove>(size.choices)),
        is_new_(static_cast<std::size_t>(size.sequences)) {}

  /// Empties the sequences that are to be.
  void begin_anew(const D& device) {
    for (std::size_t b = 0; b < is_new_.size(); ++b) {
      if (is_new_[b] != 0) state_.reset(static_cast<index_t>(b), device);
      is_new_[b] = 0;
    }
  }

  /// Sets the moves of chosen rows.
  void choose_rows(std::span<const index_t> counts, std::span<const index_t> choices) {
    choices_ = 0;
    index_t end = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      end += counts[b];
      for (index_t r = end - choices[b]; r < end; ++r, ++choices_) to_choices_.host(choices_) = {r, choices_};
    }
  }

  index_t width() const { return static_cast<index_t>(taps_.size()) * hidden; }

  const Target& target_;
  std::vector<Tap> taps_;
  TargetSessionSize size_;
  State state_;
  arena_t<D> scratch_;
  buffer_t<D, T> last_, tapped_, chosen_;
  buffer_t<D, value_t<S>> logits_;
  Mirror<D> of_choices_;
  Mirrored<D, RowMove> to_choices_;
  std::vector<char> is_new_;  // sequences that the next forward empties first
  index_t choices_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
