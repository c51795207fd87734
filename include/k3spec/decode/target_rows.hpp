#pragma once
/// \file
/// Whose rows of a target engine's forward are whose: the likeliest tokens of each sequence, and the states of what was
/// kept of it.
/// defines: MeansEngine, target_engine_t, ForEngine, TargetRows

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include <k3spec/core/checked.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/decode/target_session.hpp>
#include <k3spec/ops/move_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// Types that mean to be engines.
template <class Given>
concept MeansEngine = requires {
  typename Given::Target;
  typename Given::value_type;
};

namespace detail {
template <class Given, class T, class D>
struct EngineOf {
  using type = TargetSession<Given, T, D>;
};
template <MeansEngine Given, class T, class D>
struct EngineOf<Given, T, D> {
  static_assert(TargetEngine<Given, D>,
                "target engine: something that decode/target_engine.hpp asks for is missing or of another type");
  static_assert(std::is_same_v<typename Given::value_type, T>,
                "target engine: its value_type is not the draft's or the decoder's");
  using type = Given;
};
}  // namespace detail

/// The engine that a decoder's first argument means: an engine itself, or of a target's config Kimi K3's.
template <class Given, class T, class D>
using target_engine_t = typename detail::EngineOf<Given, T, D>::type;
/// An engine or, under clang, the fields for a target.
template <class Given>
concept ForEngine = MeansEngine<Given> || ForTarget<Given>;

/// An engine and the places of its sequences' rows.
template <class Engine, Device D = Cpu>
class TargetRows {
  using T = typename Engine::value_type;
  using E = element_t<D, T>;

 public:
  using S = accumulate_t<E>;

  /// Bytes that both hold.
  /// \param taps  how many hidden states each forward keeps
  /// \throws Error on sizes that are negative or cannot be addressed
  static std::size_t bytes(index_t taps, const TargetSessionSize& size) {
    return Engine::bytes(taps, size) + sizeof(T) * static_cast<std::size_t>(kept(taps, size)) +
           TokenChoices<D>::bytes(size.choices) + move_bytes(size) +
           sizeof(Place) * static_cast<std::size_t>(size.sequences);
  }

  /// An engine without a text.
  /// \throws Error as the engine does
  TargetRows(const typename Engine::Target& target, const std::vector<Tap>& taps, const TargetSessionSize& size,
             const D& device = D{})
      : engine_(target, taps, size, device),
        size_(size),
        width_(static_cast<index_t>(taps.size()) * Engine::hidden),
        kept_(device, kept(static_cast<index_t>(taps.size()), size)),
        tops_(device, size.choices),
        of_kept_(device, move_bytes(size)),
        to_kept_(of_kept_.template take<RowMove>(size.rows)),
        places_(static_cast<std::size_t>(size.sequences)) {}

  // ---- See TargetEngine

  void reset(index_t sequence) { engine_.reset(sequence); }
  void forward(const D& device, std::span<const index_t> ids, std::span<const index_t> counts,
               std::span<const index_t> choices) {
    engine_.forward(device, ids, counts, choices);
    choices_ = 0, top_ = {};
    index_t row = 0;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      places_[b] = {row, choices_, choices[b], counts[b]};
      row += counts[b], choices_ += choices[b];
    }
    rows_ = row;
  }
  void accept(index_t sequence, index_t n) { engine_.accept(sequence, n); }
  Matrix<const E> tapped(index_t n) { return engine_.tapped(n); }

  // ---- Each throws Error on a sequence that is not there

  /// A sequence's rows of logits, for the caller to change.
  Matrix<S> logits_of(index_t sequence) {
    return engine_.logits().rows(place(sequence).choice, place(sequence).choices);
  }
  /// Finds the token of the largest logit in each row, -1 where that is not finite or a NaN among them.
  void top(const D& device) {
    tops_.clear();
    for (index_t r = 0; r < choices_; ++r) tops_.add({.row = r});
    top_ = tops_.choose(device, engine_.logits());
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

  /// Tapped states of the first counts[b] tokens of every sequence, one behind the other, until the next forward.
  /// \returns [rows, taps · hidden]
  /// \throws Error on counts of another number of sequences, or of tokens that they did not run
  Matrix<const E> gather_tapped(const D& device, std::span<const index_t> counts) {
    require_count("target rows: counts", static_cast<index_t>(counts.size()), size_.sequences, " sequences");
    index_t rows = 0;
    bool is_moved = false;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      require_part("target rows: counts", 0, counts[b], places_[b].rows);
      is_moved = is_moved || (counts[b] > 0 && places_[b].row != rows);
      for (index_t t = 0; t < counts[b]; ++t, ++rows) to_kept_.host(rows) = {places_[b].row + t, rows};
    }
    if (!is_moved || width_ == 0) return tapped(rows);
    of_kept_.upload(device);
    const Matrix<E> kept(kept_.data(), rows, width_);
    move_rows(device, to_kept_, rows, tapped(rows_), kept);
    return kept;
  }

 private:
  /// Where a sequence's rows of the last forward begin, and its choices, and how many there are of either.
  struct Place {
    index_t row = 0, choice = 0, choices = 0, rows = 0;
  };

  /// Numbers of states that are moved: one sequence's stand where they are wanted.
  static index_t kept(index_t taps, const TargetSessionSize& size) {
    return size.sequences > 1 ? checked_product(size.rows, taps, Engine::hidden) : 0;
  }
  static std::size_t move_bytes(const TargetSessionSize& size) { return detail::piece<RowMove>(size.rows); }

  const Place& place(index_t sequence) const {
    require_index("target rows: sequence", sequence, size_.sequences);
    return places_[static_cast<std::size_t>(sequence)];
  }

  Engine engine_;
  TargetSessionSize size_;
  index_t width_;
  buffer_t<D, T> kept_;
  TokenChoices<D> tops_;
  std::span<const index_t> top_;
  Mirror<D> of_kept_;
  Mirrored<D, RowMove> to_kept_;
  std::vector<Place> places_;
  index_t choices_ = 0, rows_ = 0;  // of the last forward
};

}  // namespace K3SPEC_NAMESPACE
