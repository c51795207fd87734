#pragma once
/// \file
/// A draft's session among the rounds of a decoder: what it is asked for, of which text, and how many tokens at a time.
/// defines: AdaptiveSession, Drafting

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/decode/adaptive_length.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/session_sizes.hpp>

namespace K3SPEC_NAMESPACE {

/// A session that asks how many tokens pay: `draft(device, counts, samplings, lengths)`.
template <class Session, class D>
concept AdaptiveSession = DraftSession<Session, D> &&
    requires(Session d, const D& device, std::span<const index_t> counts, std::span<const Sampling> samplings,
             AdaptiveLength* lengths) {
  d.draft(device, counts, samplings, lengths);
};

/// The session, and its texts' samplings and lengths.
template <class Session, Device D>
class Drafting {
  using T = typename Session::value_type;
  using E = element_t<D, T>;

 public:
  /// Makes the session.
  /// \param options  that DecodeOptions::checked has passed
  /// \throws Error where lengths are to adapt and the session cannot
  template <class Target>
  Drafting(const Target& target, typename Session::Source source, const DecodeOptions& options, index_t chain,
           const DecoderSize& size, const D& device)
      : session_(make_session(target, std::move(source), draft_size(options, chain, size), device)),
        samplings_(static_cast<std::size_t>(size.texts), options.draft_sampling()),
        none_(samplings_.size()) {
    if (!options.adaptive_length) return;
    if (!AdaptiveSession<Session, D>) throw Error("adaptive_length", "true", "false: this draft has no confidences");
    lengths_.emplace(size.texts, chain);
  }

  /// Bytes that it holds.
  static std::size_t bytes(const DecodeOptions& options, index_t chain, const DecoderSize& size) {
    return Session::bytes(draft_size(options, chain, size)) +
           (options.adaptive_length ? AdaptiveLength::bytes(size.texts, chain) : 0);
  }

  void reset(index_t text, std::uint64_t seed) {
    session_.reset(text);
    samplings_[static_cast<std::size_t>(text)].seed = seed;
  }
  void append(const D& device, const Matrix<const E>& states, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    session_.append(device, states, ids, counts);
  }

  /// Proposals of at most counts[b] tokens for each text, in a round that begins.
  void draft(const D& device, std::span<const index_t> counts) {
    asked_ = std::any_of(counts.begin(), counts.end(), [](index_t n) { return n > 0; });
    measure_ = {};
    if constexpr (AdaptiveSession<Session, D>) {
      if (lengths_) {
        const bool drafts = lengths_->begin_round() != RoundKind::plain;
        return session_.draft(device, drafts ? counts : std::span<const index_t>(none_), samplings_, &*lengths_);
      }
    }
    session_.draft(device, counts, samplings_);
  }
  auto proposal(index_t text) const { return session_.proposal(text); }

  /// What verification said of a text's proposal, see AdaptiveLength.
  void verified(index_t text, index_t verified, index_t accepted) {
    measure_.drafted += session_.proposal(text).size(), measure_.tokens += accepted + 1;
    if (lengths_) lengths_->verified(text, verified, accepted);
  }
  /// Of the round that was begun last.
  void end_round(double draft_seconds, double verify_seconds, double keep_seconds) {
    measure_.draft_seconds = draft_seconds, measure_.verify_seconds = verify_seconds;
    measure_.keep_seconds = keep_seconds;
    if (lengths_) lengths_->end_round(asked_, measure_);
  }

 private:
  /// A session that is made on a device, or one that needs none.
  template <class Target>
  static Session make_session(const Target& target, typename Session::Source source, const SessionSize& size,
                              const D& device) {
    using Source = typename Session::Source;
    if constexpr (std::is_constructible_v<Session, decltype(target), Source, const SessionSize&, const D&>) {
      return Session(target, std::move(source), size, device);
    } else {
      return Session(target, std::move(source), size);
    }
  }

  Session session_;
  std::vector<Sampling> samplings_;  // by which each text is drafted
  std::vector<index_t> none_;        // a 0 for each text
  std::optional<AdaptiveLength> lengths_;
  RoundMeasure measure_;
  bool asked_ = false;
};

}  // namespace K3SPEC_NAMESPACE
