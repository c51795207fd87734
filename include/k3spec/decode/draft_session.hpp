#pragma once
/// \file
/// What speculative decoding needs of a draft: a session that follows one sequence.
/// defines: SessionSize, DraftSession, require_append, require_draft, require_size, require_layers

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include <k3spec/decode/verify.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/target/taps.hpp>

namespace k3spec {

/// What a session plans its memory for.
struct SessionSize {
  index_t capacity;           ///< positions
  index_t rows;               ///< the most positions appended at a time
  index_t chain;              ///< the most tokens drafted at a time
  bool sampled = false;       ///< tokens are drawn at a temperature
  double min_confidence = 0;  ///< see DecodeOptions
};

/// A sequence on its way through a draft. `D::Source` is what a session is made of; `taps(layers, target layers,
/// conventions)` the target's states that it reads, `states` features per position. A session is made from (target,
/// source, size).
///   append(cpu, states [n, D::states], ids [n])  n positions that are verified, and the tokens one position later
///   draft(cpu, count, sampling)                  at most `count` tokens behind the newest of those; none from logits
///                                                without a finite largest one: a broken draft only costs speed
///   default_chain(conventions)                   tokens that it was trained to draft
template <class D>
concept DraftSession = requires(D d, const Cpu& cpu, const Matrix<const typename D::value_type>& states,
                                std::span<const index_t> ids, index_t n, const Sampling& sampling,
                                const typename D::Conventions& conventions) {
  typename D::Source;
  d.reset();
  d.append(cpu, states, ids);
  { d.draft(cpu, n, sampling) } -> std::same_as<Proposal<accumulate_t<typename D::value_type>>>;
  { D::taps(ids, n, conventions) } -> std::same_as<std::vector<Tap>>;
  { D::default_chain(conventions) + D::max_chain + D::states + D::vocabulary } -> std::convertible_to<index_t>;
  { D::target_hidden } -> std::convertible_to<index_t>;
};

/// What is refused before an append touches anything.
/// \throws Error on states of another shape than [ids, columns], too many of them, a cache without room, or an id
/// outside
///         the vocabulary
template <class T>
void require_append(const Matrix<const T>& states, std::span<const index_t> ids, index_t columns, index_t vocabulary,
                    index_t length, const SessionSize& size) {
  const auto n = static_cast<index_t>(ids.size());
  if (n < 1 || n > size.rows) {
    throw Error("draft cache: rows", std::to_string(n), "1 to " + std::to_string(size.rows));
  }
  if (states.extent(0) != n || states.extent(1) != columns || !states.is_packed()) {
    throw Error("draft cache: states", std::to_string(states.extent(0)) + " x " + std::to_string(states.extent(1)),
                std::to_string(n) + " x " + std::to_string(columns) + ", packed");
  }
  detail::require_token_ids(Vector<const index_t>(ids.data(), n), vocabulary);
  if (length + n <= size.capacity) return;
  throw Error("draft cache: positions", std::to_string(length + n), "at most " + std::to_string(size.capacity));
}

/// \throws Error when nothing was appended, or the chain is longer than planned or drawn when that was not planned
inline void require_draft(index_t count, const Sampling& sampling, index_t length, const SessionSize& size) {
  if (!size.sampled && !sampling.is_greedy()) {
    throw Error("draft: temperature", fmt::format("{}", sampling.temperature), "0, as planned");
  }
  if (length == 0) throw Error("draft cache: positions", "0", "at least 1");
  if (count >= 0 && count <= size.chain) return;
  throw Error("chain", std::to_string(count), "0 to " + std::to_string(size.chain));
}

/// \returns size
/// \throws Error on a chain or a confidence that the draft cannot make
inline const SessionSize& require_size(const SessionSize& size, index_t max_chain, bool has_confidence) {
  if (size.chain < 1 || size.chain > max_chain) {
    throw Error("chain", std::to_string(size.chain), "1 to " + std::to_string(max_chain));
  }
  if (size.min_confidence == 0 || has_confidence) return size;
  throw Error("min_confidence", fmt::format("{}", size.min_confidence), "0: this draft has no confidence head");
}

/// \throws Error unless there are as many layers as the draft reads
inline void require_layers(const char* what, std::span<const index_t> layers, index_t wanted) {
  if (static_cast<index_t>(layers.size()) == wanted) return;
  throw Error(what, std::to_string(layers.size()), std::to_string(wanted));
}

}  // namespace k3spec
