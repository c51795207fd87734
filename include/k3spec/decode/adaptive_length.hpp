#pragma once
/// \file
/// How many tokens are drafted: as many as are worth their time. With λ the tokens a second that rounds give, one more
/// token pays where what it is expected to add is at least what that time gives otherwise:
/// ```text
/// chance that it stays, and all before it ≥ λ · (seconds of one more row for the target + of one more draft step)
/// ```
/// which makes expected tokens over expected time, Σ E[tokens] / Σ E[seconds], as large as it can be once λ is that
/// quotient (Dinkelbach's iteration: λ is measured under the rule that it decides). A block is drafted in one pass: its
/// steps cost nothing more, and what is chosen is how many of its tokens are verified.
///
/// Chances are the draft's own confidences, calibrated (acceptance_calibration.hpp); seconds are measured
/// (round_costs.hpp). Where rounds with a draft give fewer tokens a second than rounds without, rounds have none; every
/// 32nd round is another kind than the others, so that what is known of both stays fresh.
///
/// Lossless whatever is chosen: greedy decoding gives the target's own tokens. At a temperature, whether a token is
/// proposed at a place may depend on anything but what is drawn there and behind it (backend/cpu/verify.hpp: "a block
/// may end anywhere, as long as that depends on nothing but the tokens before"). It depends on the draft's
/// distribution at that place, which the tokens before it decide, not on the token drawn from it; on what earlier
/// rounds cost; and on what they accepted, by random numbers that no later round of the text draws again. Texts that
/// are decoded together must have seeds of their own for that. Tokens then have the target's distribution, but are
/// others than with chains of one length: draws belong to their round, and rounds begin elsewhere. Durations are no
/// run's twice, and so are lengths; greedy tokens do not depend on them.
/// defines: RoundKind, AdaptiveLength

#include <algorithm>
#include <cstddef>
#include <vector>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/acceptance_calibration.hpp>
#include <k3spec/decode/round_costs.hpp>

namespace K3SPEC_NAMESPACE {

/// What a round drafts: what pays, all that may be drafted, or nothing.
enum class RoundKind { by_rule, whole, plain };

/// Decides for all texts of a decoder, in this order: begin_round; for each text and each of its tokens `goes_on`,
/// where it takes a step of its own, and `verifies`; `verified` for each text; end_round.
class AdaptiveLength {
 public:
  /// Rounds at first, of two kinds in turn, and how often another kind is tried later.
  static constexpr index_t warm_up = 8, interval = 32;

  /// Nothing is known at first.
  /// \param texts  the most at a time \param chain  the most tokens of one
  AdaptiveLength(index_t texts, index_t chain)
      : texts_(at(texts)), chain_(chain), confidences_(at(texts * chain)), depths_(at(chain)) {}

  /// Bytes that it holds.
  static constexpr std::size_t bytes(index_t texts, index_t chain) {
    return sizeof(Text) * at(texts) + sizeof(double) * at(texts * chain) + sizeof(AcceptanceCounts) * at(chain);
  }

  /// Begins a round of all texts.
  /// \returns what it is to draft
  RoundKind begin_round() {
    for (Text& t : texts_) t = {};
    steps_ = 0;
    kind_ = next_kind();
    rate_ = std::max(costs_.plain_rate(), drafting_rate());
    step_ = costs_.step(), row_ = costs_.row();
    return kind_;
  }

  /// Is one more step of a text's chain worth its time? The confidence that it will have is not known; what is, is how
  /// often tokens stay that deep.
  /// \throws Error where there is no such text
  bool goes_on(index_t text) const {
    const Text& t = texts_[checked(text)];
    if (t.count >= chain_ || kind_ == RoundKind::plain) return false;
    const double stays = t.reach * depths_[at(t.count)].share(1, AcceptanceCalibration::prior_weight);
    return kind_ == RoundKind::whole || stays >= rate_ * (step_ + row_);
  }
  /// Is a text's next token, of which the draft is so sure, worth being verified? Once it is not, none behind it is.
  /// \param confidence  the draft's that it stays, or its largest probability at that place
  /// \throws Error where there is no such text, or its chain is full
  bool verifies(index_t text, double confidence) {
    Text& t = texts_[checked(text)];
    require_index("adaptive length: token", t.count, chain_);
    ++steps_;
    const double stays = t.reach * calibration_.acceptance(confidence);
    if (kind_ == RoundKind::plain || (kind_ == RoundKind::by_rule && stays < rate_ * row_)) return false;
    confidences_[at(text * chain_ + t.count)] = confidence;
    ++t.count, t.reach = stays;
    return true;
  }

  /// What verification said of a text's tokens.
  /// \param verified  how many of them it could say anything of \param accepted  how many of these stay
  /// \throws Error where there is no such text, and on numbers that do not go together
  void verified(index_t text, index_t verified, index_t accepted) {
    const Text& t = texts_[checked(text)];
    require_part("adaptive length: verified", 0, verified, t.count);
    require_part("adaptive length: accepted", 0, accepted, verified);
    for (index_t k = 0; k < std::min(accepted + 1, verified); ++k) {
      calibration_.add(confidences_[at(text * chain_ + k)], k < accepted);
      depths_[at(k)].add(k < accepted);
    }
  }

  /// Takes in what the round was.
  /// \param asked  whether any text could have drafted \param measure  but its steps, which are known here
  void end_round(bool asked, RoundMeasure measure) {
    if (round_ <= unmeasured || measure.tokens < 1) return;
    measure.steps = steps_;
    costs_.add(measure);
    if (!asked) return;
    if (kind_ == RoundKind::plain) costs_.add_plain(measure);
    // Where drafting does not pay a round with a draft is one in 32: the last few are all that is still true.
    if (kind_ == RoundKind::by_rule) by_rule_.add(measure, drafting_pays_ ? 32 : 4);
    if (kind_ == RoundKind::whole) whole_.add(measure, 4);
  }

  RoundKind kind() const { return kind_; }
  const RoundCosts& costs() const { return costs_; }
  /// Tokens a second of rounds that draft what pays; until there are any, of those that draft all.
  double drafting_rate() const { return by_rule_.value() > 0 ? by_rule_.value() : whole_.value(); }
  const AcceptanceCalibration& calibration() const { return calibration_; }

 private:
  struct Text {
    index_t count = 0;  ///< tokens to be verified
    double reach = 1;   ///< the chance that all of them stay
  };
  /// The first rounds touch memory for the first time.
  static constexpr index_t unmeasured = 2;
  /// How many times faster drafting has to be than plain decoding.
  static constexpr double least_gain = 1.02;

  static constexpr std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  std::size_t checked(index_t text) const {
    require_index("adaptive length: text", text, static_cast<index_t>(texts_.size()));
    return at(text);
  }

  RoundKind next_kind() {
    const index_t n = round_++;
    if (n < warm_up) return n % 2 == 0 ? RoundKind::whole : RoundKind::plain;
    const double plain = least_gain * costs_.plain_rate();
    const bool whole_pays = !drafting_pays_ && whole_.value() > plain;
    const bool pays = drafting_rate() > plain || whole_pays;
    // Another draft than before, or another text: it is measured anew.
    if (whole_pays) by_rule_ = whole_;
    if (drafting_pays_ && !pays) whole_ = {};
    drafting_pays_ = pays;
    const RoundKind usual = drafting_pays_ ? RoundKind::by_rule : RoundKind::plain;
    if (n % interval != 0) return usual;
    if (n / interval % 2 == 0) return RoundKind::whole;
    return drafting_pays_ ? RoundKind::plain : RoundKind::by_rule;
  }

  std::vector<Text> texts_;
  index_t chain_;
  std::vector<double> confidences_;       // [texts · chain] of the tokens to be verified
  std::vector<AcceptanceCounts> depths_;  // [chain]
  AcceptanceCalibration calibration_;
  RoundCosts costs_;
  TokenRate by_rule_, whole_;
  RoundKind kind_ = RoundKind::plain;
  index_t round_ = 0, steps_ = 0;
  bool drafting_pays_ = true;
  double rate_ = 0, step_ = 0, row_ = 0;  // of this round: tokens a second, seconds
};

}  // namespace K3SPEC_NAMESPACE
