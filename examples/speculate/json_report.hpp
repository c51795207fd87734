#pragma once
/// \file
/// All that speculate was asked for and measured, for programs to read.
/// defines: json_report, write_report

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <k3spec/core/version.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/json.hpp>

#include "report.hpp"

namespace k3spec::examples {

namespace detail {

/// A median with its quartiles; null where nothing was measured.
inline io::json json_of(const Spread& s) {
  if (s.runs == 0) return nullptr;
  return {{"median", s.median}, {"lower_quartile", s.low}, {"upper_quartile", s.high}, {"runs", s.runs}};
}

/// Of the pass, see Work.
inline io::json json_of(const Work& w) {
  return {{"multiply_adds", w.multiply_adds}, {"least_bytes", w.least_bytes}, {"most_bytes", w.most_bytes}};
}

inline io::json json_of(const std::vector<DepthStatistics>& depths) {
  io::json all = io::json::array();
  for (const DepthStatistics& d : depths) {
    all.elements().push_back({{"drafted", d.drafted},
                              {"reached", d.reached},
                              {"accepted", d.accepted},
                              {"acceptance", d.reached > 0 ? io::json(d.acceptance()) : io::json(nullptr)}});
  }
  return all;
}

inline io::json config_json(const Options& o) {
  const DecodeOptions& d = o.decode;
  const auto chain = d.chain ? io::json(*d.chain) : io::json(nullptr);
  return {{"target", o.target.string()},
          {"text", o.text.string()},
          {"prompts", o.prompts},
          {"prompt_length", o.prompt_length},
          {"tokens", d.max_new_tokens},
          {"repeat", o.repeat},
          {"chain", chain},
          {"min_confidence", d.min_confidence},
          {"temperature", d.temperature},
          {"seed", d.seed},
          {"top_k", d.truncation.top_k},
          {"top_p", d.truncation.top_p},
          {"min_p", d.truncation.min_p},
          {"verification", name_of(d.verification)},
          {"weights", name_of(o.weights)},
          {"device", o.device.device},
          {"threads", o.device.threads}};
}

inline std::vector<std::string> instruction_names() {
  std::vector<std::string> names;
  for (const CpuFeature& f : needed_cpu_features()) names.emplace_back(f.name);
  return names;
}

/// What plain decoding and one with a draft have in common.
inline io::json times_json(const Contestant& c, const Outcome& outcome) {
  const DecodeResult sum = outcome.sums();
  io::json j{{"name", c.name},
             {"tokens", outcome.tokens()},
             {"tokens_after_first", outcome.tokens_after_first()},
             {"target_forwards", sum.target_forwards},
             {"ms_to_first_token", json_of(Spread::of(outcome.to_first))},
             {"ms_per_token", json_of(Spread::of(outcome.per_token))}};
  j["accept_length"] =
      sum.target_forwards > 0
          ? io::json(static_cast<double>(outcome.tokens_after_first()) / static_cast<double>(sum.target_forwards))
          : io::json(nullptr);
  return j;
}

/// How many times less time a run takes than that of plain decoding beside it.
inline Spread speed_up(const Outcome& plain, const Outcome& other) {
  std::vector<double> ratios;
  for (std::size_t r = 0; r < std::min(plain.per_token.size(), other.per_token.size()); ++r) {
    if (other.per_token[r] > 0) ratios.push_back(plain.per_token[r] / other.per_token[r]);
  }
  return Spread::of(ratios);
}

/// Counts and seconds are sums over all runs; times of a round are spreads over the runs' means.
inline io::json rounds_json(const Outcome& outcome) {
  const DecodeStatistics all = outcome.all_statistics();
  io::json j{
      {"rounds", all.rounds}, {"passes", all.passes}, {"prefills", all.prefills}, {"depths", json_of(all.depths)}};
  double whole = 0;
  for (const double s : outcome.seconds) whole += s;
  io::json seconds{{"whole", whole}, {"prefill", all.prefill_seconds}}, per_round;
  for (const Part& part : parts) {
    seconds[part.name] = all.*part.seconds;
    per_round[part.name] = json_of(outcome.per_round(part));
  }
  j["seconds"] = seconds, j["ms_per_round"] = per_round;
  return j;
}

inline io::json json_of(const TargetBytes& b) {
  return {{"all", b.all}, {"embedding", b.embedding}, {"experts", b.experts}};
}

inline io::json draft_json(const Contestant& c, const Outcome& outcome, const Outcome& plain, const Options& o,
                           const TargetBytes& bytes) {
  using Model = K3Target<TargetConfig>;
  const DecodeResult sum = outcome.sums();
  io::json j = times_json(c, outcome);
  j["folder"] = c.folder.string(), j["chain"] = c.chain, j["adaptive"] = c.adaptive;
  j["drafted"] = sum.drafted, j["accepted"] = sum.accepted;
  j["speed_up"] = json_of(speed_up(plain, outcome));
  j["same_tokens"] = o.decode.temperature == 0 ? io::json(same_tokens(outcome, plain)) : io::json(nullptr);
  j["all_runs"] = rounds_json(outcome);
  j["work"] = io::json{{"draft", json_of(c.draft)},
                       {"target_of_one_row", json_of(target_work<Model>(1, bytes))},
                       {"target_of_a_chain", json_of(target_work<Model>(c.chain + 1, bytes))}};
  return j;
}

}  // namespace detail

/// \param all, outcomes  plain decoding first  \param bytes  of the target's weights
inline io::json json_report(const std::vector<Contestant>& all, const std::vector<Outcome>& outcomes, const Options& o,
                            const TargetBytes& bytes) {
  io::json drafts = io::json::array();
  for (std::size_t i = 1; i < all.size(); ++i) {
    drafts.elements().push_back(detail::draft_json(all[i], outcomes[i], outcomes.front(), o, bytes));
  }
  io::json j{{"program", "speculate"}, {"version", K3SPEC_VERSION}, {"config", detail::config_json(o)}};
  j["instructions"] = detail::instruction_names();
  j["target_bytes"] = detail::json_of(bytes);
  j["plain"] = detail::times_json(all.front(), outcomes.front());
  j["drafts"] = drafts;
  return j;
}

/// \param path  -: standard output
/// \throws Error when it cannot be written
inline void write_report(const std::filesystem::path& path, const io::json& report) {
  const std::string text = report.dump(2, io::Utf8::replace) + "\n";
  if (path != "-") return io::write_text(path, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace k3spec::examples
