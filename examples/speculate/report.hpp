#pragma once
/// \file
/// What the runs of a contestant were, the table of all, and what the rounds behind it were like.
/// defines: Part, parts, Outcome, run_once, same_tokens, print_text, print_table

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "contestant.hpp"
#include "options.hpp"
#include "spread.hpp"

namespace k3spec::examples {

/// A part of a round.
struct Part {
  const char* name;
  double DecodeStatistics::*seconds;
};
inline constexpr std::array<Part, 3> parts{{{"draft", &DecodeStatistics::draft_seconds},
                                            {"verify", &DecodeStatistics::verify_seconds},
                                            {"keep", &DecodeStatistics::keep_seconds}}};

/// One contestant's runs over all prompts.
struct Outcome {
  std::vector<DecodeResult> results;  ///< of the last run; the others' tokens are the same
  /// Milliseconds of each run: to the first token, a prompt's mean, and for each token behind it.
  std::vector<double> to_first, per_token;
  std::vector<DecodeStatistics> statistics;  ///< of each run
  std::vector<double> seconds;               ///< of each run, by a clock around it

  /// Over all prompts.
  DecodeResult sums() const {
    DecodeResult all;
    for (const auto& r : results) {
      all.target_forwards += r.target_forwards, all.drafted += r.drafted, all.accepted += r.accepted;
      all.seconds_to_first_token += r.seconds_to_first_token, all.seconds_after += r.seconds_after;
    }
    return all;
  }
  /// Of all runs.
  DecodeStatistics all_statistics() const {
    DecodeStatistics all;
    for (const auto& s : statistics) all += s;
    return all;
  }
  /// Milliseconds of a part in a round: each run's mean.
  Spread per_round(const Part& part) const {
    std::vector<double> means;
    for (const auto& s : statistics) {
      if (s.passes > 0) means.push_back(1000 * s.*part.seconds / static_cast<double>(s.passes));
    }
    return Spread::of(means);
  }
  index_t tokens() const {
    index_t sum = 0;
    for (const auto& r : results) sum += static_cast<index_t>(r.tokens.size());
    return sum;
  }
  index_t tokens_after_first() const {
    index_t sum = 0;
    for (const auto& r : results) sum += r.tokens_after_first();
    return sum;
  }
};

inline void run_once(const Cpu& cpu, const Contestant& contestant, const std::vector<std::vector<index_t>>& prompts,
                     Outcome& outcome) {
  using Clock = std::chrono::steady_clock;
  outcome.results.clear();
  (void)contestant.take_statistics();
  const auto began = Clock::now();
  for (const auto& prompt : prompts) outcome.results.push_back(contestant.generate(cpu, prompt));
  outcome.seconds.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  outcome.statistics.push_back(contestant.take_statistics());
  const DecodeResult sum = outcome.sums();
  outcome.to_first.push_back(1000 * sum.seconds_to_first_token / static_cast<double>(prompts.size()));
  const index_t behind = outcome.tokens_after_first();
  if (behind > 0) outcome.per_token.push_back(1000 * sum.seconds_after / static_cast<double>(behind));
}

inline bool same_tokens(const Outcome& a, const Outcome& b) {
  return std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                    [](const auto& x, const auto& y) { return x.tokens == y.tokens; });
}

/// What was generated, as a terminal may show it.
inline std::string text_of(const std::vector<index_t>& tokens) {
  std::string text;
  for (const index_t t : tokens) {
    if (t < 256) text += t == '\n' ? ' ' : static_cast<char>(t);
  }
  return printable(text, std::size_t{1} << 20U);
}

inline void print_text(const std::vector<Contestant>& all, const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t p = 0; p < outcomes[i].results.size(); ++p) {
      const DecodeResult& r = outcomes[i].results[p];
      fmt::print("{} {}: accept length {:.2f}, ends by {}: {}\n", all[i].name, p, r.accept_length(), name_of(r.finish),
                 text_of(r.tokens));
    }
  }
}

namespace detail {

inline constexpr const char* row_format = "{:<16} {:>7} {:>9} {:>13} {:>24} {:>24} {:>13} {:>11}\n";

inline std::string or_dash(bool is_there, const std::string& text) { return is_there ? text : std::string("-"); }

/// \param plain  the outcome of plain decoding
inline void print_row(const Contestant& c, const Outcome& outcome, const Outcome& plain, const Options& o) {
  const DecodeResult sum = outcome.sums();
  const auto share = [](index_t part, index_t of) { return static_cast<double>(part) / static_cast<double>(of); };
  const bool drafts = c.chain > 0, verified = sum.target_forwards > 0;
  const Spread per_token = Spread::of(outcome.per_token);
  fmt::print(row_format, c.name, or_dash(drafts, fmt::format("{}", c.chain)),
             or_dash(drafts && sum.drafted > 0, fmt::format("{:.1f} %", 100 * share(sum.accepted, sum.drafted))),
             or_dash(verified, fmt::format("{:.3f}", share(outcome.tokens_after_first(), sum.target_forwards))),
             Spread::of(outcome.to_first).text(), or_dash(verified, per_token.text()),
             or_dash(drafts && verified, ratio_text(Spread::of(plain.per_token), per_token)),
             or_dash(drafts && o.decode.temperature == 0, same_tokens(outcome, plain) ? "yes" : "NO"));
}

/// How a contestant's rounds went; of those without a draft nothing is known.
inline void print_rounds(const Contestant& c, const Outcome& outcome) {
  const DecodeStatistics all = outcome.all_statistics();
  if (all.rounds == 0 || c.chain == 0) return;
  std::string times, acceptances;
  for (const Part& part : parts) {
    times += fmt::format("{}{} {:.3f}", times.empty() ? "" : ", ", part.name, outcome.per_round(part).median);
  }
  for (const DepthStatistics& depth : all.depths) {
    acceptances += depth.reached > 0 ? fmt::format(" {:.1f}", 100 * depth.acceptance()) : std::string(" -");
  }
  fmt::print("{}: ms of a round: {}; accepted, of those reached: {} %\n", c.name, times, acceptances.substr(1));
}

}  // namespace detail

/// The table, and below it a line for each draft: the time of a round's parts, and the share of drafted tokens that
/// stayed of those whose predecessors did, for the first of a chain, the second, …
inline void print_table(const std::vector<Contestant>& all, const std::vector<Outcome>& outcomes, const Options& o) {
  fmt::print("{} prompts, {} tokens; times are medians of {} runs, and in brackets their quartiles\n", o.prompts,
             outcomes.front().tokens(), o.repeat);
  fmt::print(detail::row_format, "draft", "drafted", "accepted", "accept length", "ms to first token",
             "ms per output token", "speed-up", "same tokens");
  for (std::size_t i = 0; i < all.size(); ++i) detail::print_row(all[i], outcomes[i], outcomes.front(), o);
  for (std::size_t i = 0; i < all.size(); ++i) detail::print_rounds(all[i], outcomes[i]);
}

}  // namespace k3spec::examples
