#pragma once
/// \file
/// What decoding needs of a target: an engine that follows some texts, each on its own, though all of them in the same
/// forward. TargetSession (decode/target_session.hpp) is Kimi K3's; any other that does what is said here stands in its
/// place: `SpeculativeDecoder<Engine, Session>` and `PlainDecoder<Engine, T>` are then of it.
/// defines: TargetSessionSize, TargetEngine, require_forward

#include <algorithm>
#include <concepts>
#include <span>
#include <vector>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/target/taps.hpp>

namespace K3SPEC_NAMESPACE {

/// What an engine plans its memory for.
struct TargetSessionSize {
  index_t capacity;  ///< positions of each sequence, the prompt's and the drafted ones included
  index_t rows;      ///< the most tokens of one forward, of all sequences together
  index_t choices;   ///< the most of them that logits are wanted for
  index_t rollback;  ///< the most tokens of a forward, of each sequence, that can be taken back
  index_t sequences = 1;
};

/// Sequences on their way through a target, on a device. `value_type` is that of its states, S = accumulate_t of it its
/// logits'; `Target` what it is made of, weights for example, which outlive it; `hidden` numbers make a state,
/// `vocabulary` the logits, and a draft may tap the states of `num_hidden_layers` layers. It is made from (target,
/// taps, size, device), refuses taps that it has not, and holds bytes(number of taps, size). Below, counts and choices
/// have a number for each sequence, 0 or more.
/// ```text
/// reset(sequence)                              makes it empty
/// forward(device, ids [n], counts, choices)    runs counts[b] tokens of sequence b behind those kept of it, one
///                                              sequence's behind the other's
/// logits()                                     [choices in all, vocabulary] after the last choices[b] tokens of each
///                                              sequence, for the caller to change
/// tapped(n)                                    [n, taps · hidden] states of the first n tokens, the taps side by side
/// accept(sequence, n)                          keeps the first n tokens of the last forward that had any of it; not
///                                              called: all of them
/// ```
/// A row of logits must have the same bits however its text was cut into forwards, whatever stands beside it, and
/// whether or not tokens were run there that accept then dropped. From this, and nothing else of the engine, follows
/// that a draft changes no token.
template <class Engine, class D = Cpu>
concept TargetEngine = Device<D> &&
    requires(Engine e, const D& device, std::span<const index_t> ids, index_t n, const TargetSessionSize& size,
             const typename Engine::Target& target, const std::vector<Tap>& taps) {
  Engine(target, taps, size, device);
  e.reset(n);
  e.forward(device, ids, ids, ids);
  e.accept(n, n);
  { e.logits() } -> std::same_as<Matrix<accumulate_t<element_t<D, typename Engine::value_type>>>>;
  { e.tapped(n) } -> std::same_as<Matrix<const element_t<D, typename Engine::value_type>>>;
  { Engine::bytes(n, size) } -> std::same_as<std::size_t>;
  { Engine::hidden + Engine::vocabulary + Engine::num_hidden_layers } -> std::convertible_to<index_t>;
};

/// What an engine refuses before it runs anything.
/// \throws Error on more ids or choices than planned, on counts that are not as many as ids in all, and on choices
///         beyond them
inline void require_forward(std::span<const index_t> ids, std::span<const index_t> counts,
                            std::span<const index_t> choices, const TargetSessionSize& size) {
  const auto n = static_cast<index_t>(ids.size());
  require_part("target session: ids", 0, n, size.rows);
  require_count("target session: counts", static_cast<index_t>(counts.size()), size.sequences, " sequences");
  require_count("target session: choices", static_cast<index_t>(choices.size()), size.sequences, " sequences");
  index_t rows = n, left = size.choices;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    require_part("target session: counts", 0, counts[b], rows);
    require_part("target session: choices", 0, choices[b], std::min(left, counts[b]));
    rows -= counts[b], left -= choices[b];
  }
  require_count("target session: counts in all", n - rows, n, " ids");
}

}  // namespace K3SPEC_NAMESPACE
