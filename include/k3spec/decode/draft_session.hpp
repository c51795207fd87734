#pragma once
/// \file
/// What speculative decoding needs of a draft: a session that follows some sequences, each on its own, though all of
/// them in the same products. What a sequence gets does not depend on the others: it has the bits that it has alone.
/// defines: SessionSize, DraftSession, require_append, require_draft, require_size, require_layers

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/verify.hpp>
#include <k3spec/target/taps.hpp>

namespace K3SPEC_NAMESPACE {

/// What a session plans its memory for.
struct SessionSize {
  index_t capacity;           ///< positions of each sequence
  index_t rows;               ///< the most positions appended at a time, of all sequences together
  index_t chain;              ///< the most tokens drafted at a time for a sequence
  bool sampled = false;       ///< tokens are drawn at a temperature
  double min_confidence = 0;  ///< see DecodeOptions
  index_t sequences = 1;
  bool adaptive = false;  ///< an AdaptiveLength may come with a draft
};

/// Sequences on their way through a draft, on a device. `Source` is what a session is made of; `taps(layers, target
/// layers, conventions)` the target's states that it reads, `states` features per position. A session is made from
/// (target, source, size), or with the device behind them, and holds bytes(size) beside its weights. Below, counts has
/// a number for each sequence, 0 or more.
/// ```text
/// reset(sequence)                              makes it empty
/// append(device, states [n, states], ids [n], counts)
///                                              positions that are verified, those of each sequence behind its
///                                              others, and the tokens one position later
/// draft(device, counts, samplings)             at most so many tokens behind the newest position of each; none from
///                                              logits without a finite largest one: a broken draft only costs speed
/// proposal(sequence)                           those tokens, until the next call of anything
/// default_chain(conventions)                   tokens that it was trained to draft
/// ```
/// Sessions of one sequence also have append(device, states, ids) and draft(device, count, sampling), which gives its
/// proposal.
template <class Session, class D = Cpu>
concept DraftSession = Device<D> &&
    requires(Session d, const D& device, const Matrix<const element_t<D, typename Session::value_type>>& states,
             std::span<const index_t> ids, index_t n, std::span<const Sampling> samplings,
             const typename Session::Conventions& conventions, const SessionSize& size) {
  typename Session::Source;
  d.reset(n);
  d.append(device, states, ids, ids);
  d.draft(device, ids, samplings);
  { d.proposal(n) } -> std::same_as<Proposal<accumulate_t<element_t<D, typename Session::value_type>>>>;
  { Session::bytes(size) } -> std::same_as<std::size_t>;
  { Session::taps(ids, n, conventions) } -> std::same_as<std::vector<Tap>>;
  {
    Session::default_chain(conventions) + Session::max_chain + Session::states + Session::vocabulary
    } -> std::convertible_to<index_t>;
  { Session::target_hidden } -> std::convertible_to<index_t>;
};

/// What is refused before an append touches anything.
/// \param counts, lengths  of each sequence: positions to append, and those it has
/// \throws Error on states of another shape than [ids, columns], counts that are not as many as ids in all, too many of
///         them, a cache without room, or an id outside the vocabulary
template <class T>
void require_append(const Matrix<const T>& states, std::span<const index_t> ids, std::span<const index_t> counts,
                    index_t columns, index_t vocabulary, std::span<const index_t> lengths, const SessionSize& size) {
  const auto n = static_cast<index_t>(ids.size());
  if (n < 1 || n > size.rows) {
    throw Error("draft cache: rows", std::to_string(n), "1 to " + std::to_string(size.rows));
  }
  if (states.extent(0) != n || states.extent(1) != columns || !states.is_packed()) {
    throw Error("draft cache: states", std::to_string(states.extent(0)) + " x " + std::to_string(states.extent(1)),
                std::to_string(n) + " x " + std::to_string(columns) + ", packed");
  }
  require_tokens(Vector<const index_t>(ids.data(), n), vocabulary);
  if (counts.size() != lengths.size()) {
    throw Error("draft cache: counts", std::to_string(counts.size()), std::to_string(lengths.size()));
  }
  index_t rows = 0;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    rows += counts[b];
    if (counts[b] >= 0 && lengths[b] + counts[b] <= size.capacity) continue;
    throw Error("draft cache: positions", std::to_string(lengths[b] + counts[b]),
                "at most " + std::to_string(size.capacity));
  }
  if (rows != n) throw Error("draft cache: counts in all", std::to_string(rows), std::to_string(n));
}

/// Refuses a draft that cannot be made.
/// \param adapts  lengths that adapt are asked for
/// \throws Error when nothing was appended to a sequence that is to draft, or its chain is longer than planned or drawn
///         when that was not planned, nor that lengths adapt
inline void require_draft(std::span<const index_t> counts, std::span<const Sampling> samplings,
                          std::span<const index_t> lengths, const SessionSize& size, bool adapts = false) {
  if (adapts && !size.adaptive) throw Error("draft: lengths", "some that adapt", "none, as planned");
  if (counts.size() != lengths.size() || samplings.size() != lengths.size()) {
    throw Error("draft: counts and samplings", fmt::format("{} and {}", counts.size(), samplings.size()),
                fmt::format("{} of each", lengths.size()));
  }
  for (std::size_t b = 0; b < counts.size(); ++b) {
    if (counts[b] == 0) continue;
    if (!size.sampled && !samplings[b].is_greedy()) {
      throw Error("draft: temperature", fmt::format("{}", samplings[b].temperature), "0, as planned");
    }
    if (lengths[b] == 0) throw Error("draft cache: positions", "0", "at least 1");
    if (counts[b] < 0 || counts[b] > size.chain) {
      throw Error("chain", std::to_string(counts[b]), "0 to " + std::to_string(size.chain));
    }
  }
}

/// Refuses the size of a session that the draft cannot have.
/// \returns size
/// \throws Error on a chain or a confidence that the draft cannot make
inline const SessionSize& require_size(const SessionSize& size, index_t max_chain, bool has_confidence) {
  if (size.chain < 1 || size.chain > max_chain) {
    throw Error("chain", std::to_string(size.chain), "1 to " + std::to_string(max_chain));
  }
  if (size.min_confidence == 0 || has_confidence) return size;
  throw Error("min_confidence", fmt::format("{}", size.min_confidence), "0: this draft has no confidence head");
}

/// Refuses another number of layers than the draft reads.
/// \throws Error unless there are as many layers as the draft reads
inline void require_layers(const char* what, std::span<const index_t> layers, index_t wanted) {
  if (static_cast<index_t>(layers.size()) == wanted) return;
  throw Error(what, std::to_string(layers.size()), std::to_string(wanted));
}

}  // namespace K3SPEC_NAMESPACE
