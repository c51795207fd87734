#pragma once
/// \file
/// Which drafted tokens stay, and what comes after them. With the target's distributions p and the draft's q, at a
/// temperature by one of two rules, token by token or by block; either leaves every token distributed as the target's
/// own. The rules, and why they are right: backend/cpu/verify.hpp.
/// A backend brings verify_kernel with its tag.
/// defines: verify_greedy, Verifier

#include <algorithm>
#include <string>

#include <k3spec/backend/cpu/verify.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/decode/sampling.hpp>

namespace K3SPEC_NAMESPACE {

/// For the likeliest tokens: those stay that are the target's own.
/// \param top  the target's likeliest token at each drafted token's place and at the one after the last
/// \throws Error unless it is one more than tokens
inline Verdict verify_greedy(std::span<const index_t> tokens, std::span<const index_t> top) {
  require_count("verify: top", static_cast<index_t>(top.size()), static_cast<index_t>(tokens.size()) + 1, " tokens");
  const auto kept = std::mismatch(tokens.begin(), tokens.end(), top.begin());
  return {kept.first - tokens.begin(), *kept.second};
}

/// Texts whose drafted tokens, drawn at a temperature, are verified together. Logits and weights stay on the device;
/// only tokens and verdicts travel.
template <Device D, Element S>
class Verifier {
  using E = element_t<D, S>;

 public:
  /// Room for some texts.
  /// \param texts, tokens  the most at a time
  /// \throws Error on numbers that are negative or cannot be allocated
  Verifier(const D& device, index_t texts, index_t tokens)
      : asked_(device, detail::piece<DraftedText<E>>(texts) + detail::piece<index_t>(tokens)),
        said_(device, detail::piece<Verdict>(texts)),
        texts_(asked_.template take<DraftedText<E>>(texts)),
        tokens_(asked_.template take<index_t>(tokens)),
        verdicts_(said_.template take<Verdict>(texts)) {}

  /// Bytes that it holds.
  static constexpr std::size_t bytes(index_t texts, index_t tokens) {
    return detail::piece<DraftedText<E>>(texts) + detail::piece<index_t>(tokens) + detail::piece<Verdict>(texts);
  }

  void clear() { texts_count_ = tokens_count_ = 0; }

  /// Adds a text.
  /// \param logits    [tokens + 1, vocabulary] the target's; they become weights, as far as those are needed
  /// \param position  of the first drafted token
  /// \returns its place among the verdicts
  /// \throws Error on a proposal without a row of weights for each token, a token that they do not weigh, where target
  ///         and draft weigh other tokens, and on more texts or tokens than planned
  index_t add(const Proposal<E>& proposal, const Matrix<E>& logits, const Sampling& sampling, index_t position) {
    const index_t n = proposal.size();
    detail::require_proposal(proposal);
    require_rows("verify: logits", logits, n + 1);
    if (n > 0) require_count("verify: weights of the draft", proposal.weights.extent(1), logits.extent(1), " tokens");
    require_index("verify: texts", texts_count_, texts_.host.extent(0));
    require_part("verify: tokens of all texts", tokens_count_, n, tokens_.host.extent(0));
    std::copy(proposal.tokens.begin(), proposal.tokens.end(), tokens_.host.data() + tokens_count_);
    texts_.host(texts_count_) = {logits, proposal.weights, tokens_count_, n, position, sampling};
    tokens_count_ += n;
    return texts_count_++;
  }

  /// Verdicts of all texts since clear(), by a rule, with the random numbers of the round that begins at the position.
  /// \returns -1 accepted where weights have no positive, finite sum; valid until the next call
  std::span<const Verdict> verify(const D& device, Verification rule) {
    if (texts_count_ == 0) return {};
    asked_.upload(device);
    verify_kernel(device, VerifyProblem<E>{rule, tokens_.device, texts_.device.rows(0, texts_count_),
                                           verdicts_.device.rows(0, texts_count_)});
    said_.download(device);
    return {verdicts_.host.data(), static_cast<std::size_t>(texts_count_)};
  }

 private:
  Mirror<D> asked_, said_;
  Mirrored<D, DraftedText<E>> texts_;
  Mirrored<D, index_t> tokens_;
  Mirrored<D, Verdict> verdicts_;
  index_t texts_count_ = 0, tokens_count_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
