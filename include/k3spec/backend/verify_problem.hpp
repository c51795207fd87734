#pragma once
/// \file
/// What every backend is handed of the verification of drafted tokens, and the rules' names.
/// defines: Verification, Proposal, Verdict, DraftedText, VerifyProblem

#include <array>
#include <span>
#include <string_view>
#include <type_traits>

#include <k3spec/backend/distribution.hpp>
#include <k3spec/backend/sampling.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// The rule at a temperature.
enum class Verification { token, block };
template <>
inline constexpr std::array<std::string_view, 2> names_of<Verification>{"token", "block"};

/// What a draft proposes, as ids of the target; views of the session that made it, valid until its next call.
template <class S>
struct Proposal {
  std::span<const index_t> tokens;
  /// At a temperature: row i has the weights that token i was drawn with. [tokens, vocabulary], on the session's device
  Matrix<const S> weights = {};

  index_t size() const { return static_cast<index_t>(tokens.size()); }
  /// The first n of them. \throws Error when there are fewer
  Proposal first(index_t n) const {
    require_part("proposal: tokens", 0, n, size());
    if (weights.extent(0) > 0) require_rows("proposal: weights", weights, size());
    return {tokens.first(static_cast<std::size_t>(n)), weights.extent(0) > 0 ? weights.rows(0, n) : weights};
  }
  /// What token i was drawn from, where the host can read it.
  /// \throws Error where row i is not there
  Distribution<S> distribution(index_t i) const {
    require_index("proposal: weights: row", i, weights.extent(0));
    return Distribution<S>({weights.row(i), static_cast<std::size_t>(weights.extent(1))});
  }
};

/// What stays of a proposal, and the token behind it.
struct Verdict {
  index_t accepted;  ///< drafted tokens that stay
  index_t next;      ///< the token after them
};

/// A text whose drafted tokens are to be verified.
template <class S>
struct DraftedText {
  Matrix<S> logits;         ///< [count + 1, vocabulary] the target's; they become weights, as far as those are needed
  Matrix<const S> weights;  ///< [count, vocabulary] what the draft drew from
  index_t first, count;     ///< of the drafted tokens
  index_t position;         ///< of the first of them in the text
  Sampling sampling;
};

/// Drafted tokens of several texts, drawn at a temperature.
template <class S>
struct VerifyProblem {
  Verification rule;
  Vector<const placed_as_t<index_t, S>> tokens;  ///< of all texts
  Vector<const placed_as_t<DraftedText<S>, S>> texts;
  Vector<placed_as_t<Verdict, S>> verdicts;  ///< [texts]; -1 accepted where weights have no positive, finite sum
};
static_assert(std::is_trivially_copyable_v<VerifyProblem<float>> && std::is_trivially_copyable_v<DraftedText<float>>);

}  // namespace K3SPEC_NAMESPACE
