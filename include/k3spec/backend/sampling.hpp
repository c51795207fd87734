#pragma once
/// \file
/// What every backend is handed of the choice of tokens. A random number belongs to a position of the text and to what
/// is decided with it, so no result depends on threads, on how a text is cut into calls, or on the time. What a draft
/// proposes and whether that stays may be decided again at a position, in the next round: those numbers belong to their
/// round, too, or else what the first one rejected would weigh on the second.
/// defines: Decision, Sampling, Draw, TokenDraws

#include <cstdint>
#include <type_traits>

#include <k3spec/backend/truncation.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// What a random number decides at its position.
enum class Decision : std::uint64_t {
  accept,  ///< whether a drafted token stays
  token,   ///< the target's own token, or the one in place of a rejected one
  draft,   ///< the drafted token
};

/// How tokens are chosen: the likeliest one at temperature 0, else at random with probability ∝ exp(logit /
/// temperature) from those that the truncation keeps.
struct Sampling {
  double temperature = 0;
  std::uint64_t seed = 0;
  Truncation truncation = {};

  K3SPEC_HOST_DEVICE bool is_greedy() const { return temperature == 0; }

  /// In [0, 1)
  /// \param round  the first position of the round that decides; 0 where there is no other at the position
  K3SPEC_HOST_DEVICE double uniform(Decision decision, index_t position, index_t round = 0) const {
    const auto stream = static_cast<std::uint64_t>(decision) + 4 * static_cast<std::uint64_t>(round);
    return Philox(seed, stream).uniform(static_cast<std::uint64_t>(position));
  }
};

/// One token that is to be chosen.
struct Draw {
  index_t row = 0;  ///< of the logits
  Sampling sampling = {};
  Decision decision = Decision::token;
  index_t position = 0, round = 0;  ///< see Sampling::uniform

  K3SPEC_HOST_DEVICE double uniform() const { return sampling.uniform(decision, position, round); }
};
static_assert(std::is_trivially_copyable_v<Draw>);

/// Tokens from rows of logits.
template <class S>
struct TokenDraws {
  Matrix<S> logits;                          ///< [rows, tokens]; rows that are drawn from become weights
  Vector<const placed_as_t<Draw, S>> draws;  ///< of rows that differ from one another
  Vector<placed_as_t<index_t, S>> tokens;    ///< [draws], -1 where a row has a NaN or no finite largest number
};
static_assert(std::is_trivially_copyable_v<TokenDraws<float>>);

}  // namespace K3SPEC_NAMESPACE
