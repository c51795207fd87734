#pragma once
/// \file
/// What rounds of decoding were like: how many tokens stayed, by their place in the chain, and where the time went.
/// defines: DepthStatistics, DecodeStatistics, DecodeClock, Laps

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/instruction_set.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Of the tokens at one place of their chain, in numbers of rounds.
struct DepthStatistics {
  index_t drafted = 0;   ///< a token was drafted here
  index_t reached = 0;   ///< and all tokens before it stayed
  index_t accepted = 0;  ///< and so did it

  /// The share that stayed of those whose predecessors did: 0 where there were none.
  double acceptance() const { return reached == 0 ? 0 : static_cast<double>(accepted) / static_cast<double>(reached); }

  bool operator==(const DepthStatistics&) const = default;
};

/// Sums over all texts and rounds since they were last set to nothing. What stayed is what verification said, also
/// behind a text's end: a stop token may be accepted with tokens behind it, which are not emitted.
/// ```text
/// accept_length() = 1 + Σ_i accepted_i / rounds = 1 + Σ_i Π_{j ≤ i} share_j · acceptance_j,
/// share_j = reached_j / accepted_{j-1}, accepted_0 = rounds:
/// ```
/// the share of rounds that came so far in which a token was drafted there, 1 where chains are equally long. With
/// no stop tokens or strings it is DecodeResult::accept_length over the same texts.
struct DecodeStatistics {
  std::vector<DepthStatistics> depths = {};  ///< [chain] the first drafted token, the second, …
  index_t rounds = 0;                        ///< of each text: as many as target forwards after prompts, summed up
  index_t passes = 0;                        ///< rounds of all texts together: the target runs once in each
  index_t prefills = 0;                      ///< passes over prompts
  /// Seconds of passes, by the decoder's clock: the draft's proposals; the target's forward with the verdicts; what is
  /// kept and taken back, with the draft's cache. A device that works behind the host's back may do the last of these
  /// in the first of the next round, whose tokens the host waits for.
  double draft_seconds = 0, verify_seconds = 0, keep_seconds = 0;
  double prefill_seconds = 0;  ///< of reading prompts, with their first tokens

  /// Counts a text's round.
  /// \param drafted   tokens proposed, at most as many as there are depths
  /// \param verified  those of them that the target could say anything of
  /// \param accepted  those of them that stay
  /// \throws Error on numbers that do not go together
  void count(index_t drafted, index_t verified, index_t accepted) {
    require_part("statistics: drafted", 0, drafted, static_cast<index_t>(depths.size()));
    require_part("statistics: verified", 0, verified, drafted);
    require_part("statistics: accepted", 0, accepted, verified);
    ++rounds;
    for (index_t i = 0; i < drafted; ++i) {
      DepthStatistics& depth = depths[static_cast<std::size_t>(i)];
      ++depth.drafted;
      if (i < verified && i <= accepted) ++depth.reached;
      if (i < accepted) ++depth.accepted;
    }
  }

  index_t drafted() const { return sum(&DepthStatistics::drafted); }
  index_t accepted() const { return sum(&DepthStatistics::accepted); }
  /// Tokens that a text's round gives: those that stay and the target's own. 0 without a round.
  double accept_length() const {
    return rounds == 0 ? 0 : 1 + static_cast<double>(accepted()) / static_cast<double>(rounds);
  }
  /// Of all that is measured.
  double seconds() const { return draft_seconds + verify_seconds + keep_seconds + prefill_seconds; }

  /// Adds those of other rounds, whatever their chains are.
  DecodeStatistics& operator+=(const DecodeStatistics& other) {
    depths.resize(std::max(depths.size(), other.depths.size()));
    for (std::size_t i = 0; i < other.depths.size(); ++i) {
      depths[i].drafted += other.depths[i].drafted, depths[i].reached += other.depths[i].reached;
      depths[i].accepted += other.depths[i].accepted;
    }
    rounds += other.rounds, passes += other.passes, prefills += other.prefills;
    draft_seconds += other.draft_seconds, verify_seconds += other.verify_seconds;
    keep_seconds += other.keep_seconds, prefill_seconds += other.prefill_seconds;
    return *this;
  }

 private:
  index_t sum(index_t DepthStatistics::*of) const {
    index_t total = 0;
    for (const DepthStatistics& depth : depths) total += depth.*of;
    return total;
  }
};

/// Seconds since any one moment; none: std::chrono::steady_clock.
using DecodeClock = std::function<double()>;

/// The times between calls, by a clock that outlives it.
class Laps {
 public:
  explicit Laps(const DecodeClock& clock) : clock_(clock), last_(now()) {}

  /// Seconds since the last call, or since it was made.
  double next() {
    const double since = std::exchange(last_, now());
    return last_ - since;
  }

 private:
  double now() const {
    if (clock_) return clock_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  const DecodeClock& clock_;
  double last_;
};

}  // namespace K3SPEC_NAMESPACE
