#pragma once
/// \file
/// The report's tables.
/// defines: number_words, counts_tokens, summary_table, sets_table, looks_table, decoding_table

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>

#include "../common/progress.hpp"
#include "decoding.hpp"
#include "html.hpp"
#include "series.hpp"

namespace k3spec::examples {

/// A number with so many digits behind the point; a dash for none.
inline std::string number_words(const std::optional<double>& x, int digits) {
  return x ? fmt::format("{:.{}f}", *x, digits) : "-";
}

/// Whether all steps that say how long they took say of how many tokens they were.
inline bool counts_tokens(const std::vector<TrainingLog>& logs) {
  bool any = false;
  for (const TrainingLog& log : logs) {
    for (const Step& s : log.steps) {
      if (s.seconds && !s.tokens) return false;
      any = any || s.tokens;
    }
  }
  return any;
}

namespace detail {

/// The look at which `sign` times the number is least, if any has it.
template <class F>
const Look* best_look(const TrainingLog& log, double sign, F&& value) {
  const Look* best = nullptr;
  for (const Look& look : log.looks) {
    const std::optional<double> x = value(look.numbers);
    if (x && (best == nullptr || sign * *x < sign * *value(best->numbers))) best = &look;
  }
  return best;
}

inline std::optional<double> sum_of(const TrainingLog& log, std::optional<double> Step::*of) {
  std::optional<double> sum;
  for (const Step& s : log.steps) {
    if (s.*of) sum = sum.value_or(0) + *(s.*of);
  }
  return sum;
}

inline std::string rate_words(const TrainingLog& log, bool tokens) {
  std::vector<double> rates;
  for (const Step& s : log.steps) {
    if (const auto rate = rate_of(s, tokens)) rates.push_back(*rate);
  }
  const auto rate = median(rates);
  return number_words(rate, rate && *rate < 100 ? 2 : 0);
}

}  // namespace detail

/// A column for each run.
inline Table summary_table(const std::vector<TrainingLog>& logs) {
  Table table{"Runs", {{""}}};
  for (const TrainingLog& log : logs) table.rows[0].push_back(log.name);
  const auto row = [&](const char* title, auto&& words) {
    table.rows.push_back({title});
    for (const TrainingLog& log : logs) table.rows.back().push_back(words(log));
  };
  const auto loss = [](const HeldoutNumbers& n) { return n.loss; };
  const auto length = [](const HeldoutNumbers& n) { return std::optional(n.accept_length); };
  const bool tokens = counts_tokens(logs);
  const auto rows = [&](const std::string& title, int digits, double sign, auto&& value) {
    row((title + ", last").c_str(),
        [&](const auto& log) { return number_words(value(log.looks.back().numbers), digits); });
    row((title + ", best").c_str(), [&](const auto& log) {
      const Look* best = detail::best_look(log, sign, value);
      return best == nullptr ? "-" : number_words(value(best->numbers), digits);
    });
    row("at step", [&](const auto& log) {
      const Look* best = detail::best_look(log, sign, value);
      return best == nullptr ? "-" : number_words(best->step, 0);
    });
  };
  row("Steps", [](const auto& log) { return number_words(last_step(log), 0); });
  rows("Held-out loss", 4, 1, loss);
  rows("Accept length", 3, -1, length);
  row("Held-out accuracy, last", [](const auto& log) { return number_words(log.looks.back().numbers.accuracy, 3); });
  row(tokens ? "Tokens a second, median" : "Steps a second, median",
      [&](const auto& log) { return detail::rate_words(log, tokens); });
  row("Time in steps", [](const auto& log) {
    const auto seconds = detail::sum_of(log, &Step::seconds);
    return seconds ? duration_string(*seconds) : "-";
  });
  row("Skipped steps",
      [](const auto& log) { return log.steps.empty() ? "-" : number_words(log.steps.back().skipped, 0); });
  return table;
}

/// Of the texts beside the first. \returns none when no log has any
inline std::optional<Table> sets_table(const std::vector<TrainingLog>& logs) {
  Table table{"Other held-out texts", {{"Run, text", "Loss", "Accept length", "Accuracy"}}};
  for (const TrainingLog& log : logs) {
    for (const auto& [set, n] : log.looks.back().sets) {
      table.rows.push_back({log.name + ", " + set, number_words(n.loss, 4), number_words(n.accept_length, 3),
                            number_words(n.accuracy, 3)});
    }
  }
  return table.rows.size() > 1 ? std::optional(table) : std::nullopt;
}

inline Table looks_table(const std::vector<TrainingLog>& logs) {
  Table table{"Looks at held-out text",
              {{"Run", "Step", "Loss", "Accept length", "Accuracy", "Acceptance by depth", "ECE"}}};
  for (const TrainingLog& log : logs) {
    for (const auto& [step, n, sets] : log.looks) {
      std::string rates;
      for (const auto& rate : n.acceptance) rates += (rates.empty() ? "" : " ") + number_words(rate, 3);
      table.rows.push_back({log.name, number_words(step, 0), number_words(n.loss, 4), number_words(n.accept_length, 3),
                            number_words(n.accuracy, 3), rates.empty() ? "-" : rates,
                            number_words(n.calibration_error, 4)});
    }
  }
  return table;
}

inline Table decoding_table(const std::vector<Decoding>& all) {
  Table table{"Decoding",
              {{"Draft", "Drafted", "Accepted", "Accept length", "ms to first token", "ms per output token",
                "Times as fast as plain"}}};
  for (const Decoding& d : all) {
    const bool any = d.drafted && d.accepted && *d.drafted > 0;
    table.rows.push_back({d.name, number_words(d.chain, 0),
                          any ? fmt::format("{:.1f} %", 100 * *d.accepted / *d.drafted) : "-",
                          number_words(d.accept_length, 2), number_words(d.ms_to_first_token, 2),
                          number_words(d.ms_per_token, 3), number_words(d.speed_up, 2)});
  }
  return table;
}

}  // namespace k3spec::examples
