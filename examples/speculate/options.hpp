#pragma once
/// \file
/// What speculate is asked for.
/// defines: Options, add_options, complete

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/config/stop_tokens.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/io/stop_tokens.hpp>

#include "../common/compiled_in.hpp"
#include "../common/places.hpp"
#include "../common/program.hpp"
#include "../common/token_files.hpp"
#include "../common/weights.hpp"

namespace k3spec::examples {

struct Options {
  std::filesystem::path target = "examples/data/k3-tiny";
  std::vector<std::filesystem::path> drafts;
  std::filesystem::path text = "examples/data/k3-tiny/heldout.txt";
  std::optional<DType> bin_type;  ///< of the tokens in a file *.bin
  DeviceOptions device;
  KeepWeights weights = KeepWeights::native;
  index_t prompts = 8, prompt_length = 96, repeat = 5;
  DecodeOptions decode;
  std::optional<index_t> draft_top_k;
  std::optional<double> draft_top_p, draft_min_p;
  std::vector<index_t> stop_tokens;
  PenaltyOptions penalties;
  std::vector<std::pair<index_t, double>> logit_bias;
  bool show = false, adaptive = false;
  std::optional<std::filesystem::path> json;
  /// Options that nothing hangs on where the likeliest token is taken.
  std::vector<const CLI::Option*> of_drawing;
};

inline constexpr index_t last_token = TargetConfig::vocab_size - 1;
inline constexpr Range<double> any_number{};

inline void add_logit_changes(Arguments& arguments, Options& o) {
  arguments.number("--repetition-penalty", o.penalties.repetition, Range<double>{.least = 0, .above = true},
                   "Divides positive logits of tokens the text has, and multiplies negative ones");
  arguments.number("--presence-penalty", o.penalties.presence, any_number,
                   "Taken from the logits of tokens that were generated");
  arguments.number("--frequency-penalty", o.penalties.frequency, any_number, "The same as often as each was generated");
  const auto take = [&o](const std::string& flag, Arguments::Values v) {
    constexpr Range<double> bias{.least = -std::numeric_limits<double>::infinity()};
    o.logit_bias.emplace_back(parse_number(flag, v[0], Range<index_t>{0, last_token}), parse_number(flag, v[1], bias));
  };
  arguments.add("--logit-bias", "TOKEN BIAS",
                "A token and what is added to its logit, -inf: never it; may be given several times", take,
                Arguments::Times::several, 2);
}

inline void add_sampling_options(Arguments& arguments, Options& o) {
  const auto temperature = [&o](const std::string& flag, Arguments::Values v) {
    o.decode.temperature = parse_number(flag, v[0], any_number);
    if (o.decode.temperature == 0) return;
    try {
      (void)parse_number(flag, v[0], DecodeOptions::temperature_range);
    } catch (const UsageError& e) {
      throw UsageError(e.subject(), e.found(), "0, or " + e.wanted());
    }
  };
  arguments.add("--temperature", "FLOAT", "0: greedy; else tokens are drawn; 1e-06 to 1e+06", temperature)
      ->default_str("0");
  auto& target = o.decode.truncation;
  o.of_drawing = {
      arguments.number("--seed", o.decode.seed, Range<std::uint64_t>{}, "Of what is drawn"),
      arguments.number("--top-k", target.top_k, Truncation::top_k_range, "Draw from so many of the likeliest tokens"),
      arguments.number("--top-p", target.top_p, Truncation::top_p_range,
                       "Draw from the likeliest that have so much of all the probability together"),
      arguments.number("--min-p", target.min_p, Truncation::min_p_range,
                       "Draw from those at least so many times as likely as the likeliest"),
      arguments.number("--draft-top-k", o.draft_top_k, Truncation::top_k_range, "--top-k of the drafts [the target's]"),
      arguments.number("--draft-top-p", o.draft_top_p, Truncation::top_p_range, "--top-p of the drafts [the target's]"),
      arguments.number("--draft-min-p", o.draft_min_p, Truncation::min_p_range, "--min-p of the drafts [the target's]"),
      arguments.named("--verification", o.decode.verification,
                      "How drafted tokens are accepted at a temperature: one by one, or all of a block together")};
  add_logit_changes(arguments, o);
}

inline void add_options(Arguments& arguments, Options& o) {
  constexpr index_t most = 16384, longest_chain = 256;
  o.decode.max_new_tokens = 256;
  arguments.path("--target", o.target, "Folder of the target's checkpoint");
  arguments.path("--draft", o.drafts, "Folder of a draft that train_draft wrote; may be given several times")
      ->required();
  arguments.path("--text", o.text,
                 token_files_help("Data whose pieces, or whose documents' beginnings, are the prompts: "));
  add_bin_option(arguments, o.bin_type);
  arguments.number("--prompts", o.prompts, Range<index_t>{1, most}, "How many prompts");
  arguments.number("--prompt-length", o.prompt_length, Range<index_t>{1, most}, "Tokens of each");
  arguments.number("--tokens", o.decode.max_new_tokens, Range<index_t>{1, most}, "Tokens to generate after each");
  arguments.texts("--stop", o.decode.stop_strings, "Text that ends what is generated; may be given several times");
  arguments.number("--stop-token", o.stop_tokens, Range<index_t>{0, last_token},
                   "A token that does so, beside those the target's files name; may be given several times");
  arguments.number("--chain", o.decode.chain, Range<index_t>{1, longest_chain},
                   "Tokens drafted for one target forward [as many as each draft was trained for]");
  arguments.toggle("--adaptive", o.adaptive,
                   "Decode with each draft once more, with as many tokens drafted as are worth their time");
  add_sampling_options(arguments, o);
  arguments.number("--min-confidence", o.decode.min_confidence, DecodeOptions::min_confidence_range,
                   "DSpark ends a block before a token whose chance to be accepted, with all before it, it takes to be "
                   "lower: the product of its confidences");
  arguments.number("--repeat", o.repeat, Range<index_t>{1, 1000},
                   "Runs over all prompts; times are medians, with quartiles");
  add_weights_option(arguments, o.weights);
  add_device_options(arguments, o.device);
  arguments.toggle("--show", o.show, "Print the generated text");
  arguments.path("--json", o.json, "A file for all that was measured; -: standard output, with nothing else on it");
}

/// Refuses flags that change nothing.
inline void refuse_idle_flags(const Options& o) {
  for (const CLI::Option* flag : o.of_drawing) {
    if (o.decode.temperature != 0 || flag->count() == 0) continue;
    throw UsageError(flag->get_name(), "it with --temperature 0", "it with tokens that are drawn");
  }
}

/// What the flags say as a decoder takes it, before the target is loaded.
inline void complete(Options& o) {
  refuse_idle_flags(o);
  if (o.show && o.json == "-")
    throw UsageError("--show", "it with --json -", "one of them: both are on standard output");
  if (o.json && o.json != "-") check_output_file("--json", *o.json);
  for (const std::string& stop : o.decode.stop_strings) {
    if (stop.empty()) throw UsageError("--stop", shown_value(stop), "at least one byte");
  }
  Truncation draft = o.decode.truncation;
  draft.top_k = o.draft_top_k.value_or(draft.top_k);
  draft.top_p = o.draft_top_p.value_or(draft.top_p);
  draft.min_p = o.draft_min_p.value_or(draft.min_p);
  o.decode.draft_truncation = draft;
  o.decode.token_bytes = byte_of_token;
  if (o.penalties != PenaltyOptions{} || !o.logit_bias.empty()) {
    o.decode.logit_processor =
        in_turn(Penalties(o.penalties, TargetConfig::vocab_size), LogitBias(o.logit_bias, TargetConfig::vocab_size));
  }
  o.decode.stop_token_ids = stop_token_ids<TargetConfig>();
  const auto of_files = io::stop_token_ids(o.target, TargetConfig::vocab_size);
  for (const auto& ids : {of_files, o.stop_tokens}) {
    o.decode.stop_token_ids.insert(o.decode.stop_token_ids.end(), ids.begin(), ids.end());
  }
  o.decode.checked(o.prompt_length + o.decode.max_new_tokens, TargetConfig::vocab_size);
}

}  // namespace k3spec::examples
