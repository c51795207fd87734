#pragma once
/// \file
/// What speculate is asked for.
/// defines: Options, add_options, check

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <k3spec/config/stop_tokens.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/io/stop_tokens.hpp>

#include "../common/eagle3_form.hpp"
#include "../common/program.hpp"

namespace k3spec::examples {

struct Options {
  std::filesystem::path target = "examples/data/k3-tiny";
  std::vector<std::filesystem::path> drafts;
  std::filesystem::path text = "examples/data/k3-tiny/heldout.txt";
  DeviceOptions device;
  index_t prompts = 8, prompt_length = 96, repeat = 5, chain = 0;
  DecodeOptions decode;
  Truncation draft_truncation;
  std::vector<index_t> stop_tokens;
  PenaltyOptions penalties;
  std::vector<std::pair<index_t, double>> logit_bias;
  bool show = false;
};

inline void add_sampling_options(CLI::App& app, Options& o) {
  app.add_option("--temperature", o.decode.temperature, "0: greedy; else tokens are drawn")->capture_default_str();
  app.add_option("--seed", o.decode.seed, "of what is drawn")->capture_default_str();
  auto& target = o.decode.truncation;
  app.add_option("--top-k", target.top_k, "draw from so many of the likeliest tokens; 0: all")->capture_default_str();
  app.add_option("--top-p", target.top_p, "draw from the likeliest that have so much of all the probability together")
      ->capture_default_str();
  app.add_option("--min-p", target.min_p, "draw from those at least so many times as likely as the likeliest")
      ->capture_default_str();
  auto& draft = o.draft_truncation;
  app.add_option("--draft-top-k", draft.top_k, "--top-k of the drafts [the target's]");
  app.add_option("--draft-top-p", draft.top_p, "--top-p of the drafts [the target's]");
  app.add_option("--draft-min-p", draft.min_p, "--min-p of the drafts [the target's]");
  app.add_option("--repetition-penalty", o.penalties.repetition,
                 "divides positive logits of tokens the text has, and multiplies negative ones")
      ->capture_default_str();
  app.add_option("--presence-penalty", o.penalties.presence, "taken from the logits of tokens that were generated")
      ->capture_default_str();
  app.add_option("--frequency-penalty", o.penalties.frequency, "the same as often as each was generated")
      ->capture_default_str();
  app.add_option("--logit-bias", o.logit_bias, "a token and what is added to its logit; may be given several times");
}

inline void add_options(CLI::App& app, Options& o) {
  o.decode.max_new_tokens = 256;
  app.add_option("--target", o.target, "folder of the target's checkpoint")->capture_default_str();
  app.add_option("--draft", o.drafts, "folder of a draft that train_draft wrote; may be given several times")
      ->required();
  app.add_option("--text", o.text, "text whose pieces are the prompts")->capture_default_str();
  app.add_option("--prompts", o.prompts, "how many prompts")->capture_default_str();
  app.add_option("--prompt-length", o.prompt_length, "bytes of each")->capture_default_str();
  app.add_option("--tokens", o.decode.max_new_tokens, "tokens to generate after each")->capture_default_str();
  app.add_option("--stop", o.decode.stop_strings, "text that ends what is generated; may be given several times");
  app.add_option("--stop-token", o.stop_tokens, "a token that does so, beside those the target's files name");
  app.add_option("--chain", o.chain, "tokens drafted for one target forward [as many as each draft was trained for]");
  add_sampling_options(app, o);
  app.add_option("--min-confidence", o.decode.min_confidence,
                 "DSpark ends a block before a token whose chance to be accepted, with all before it, it takes to be "
                 "lower: the product of its confidences")
      ->capture_default_str();
  add_named(app, "--verification", o.decode.verification,
            "how drafted tokens are accepted at a temperature: one by one, or all of a block together");
  app.add_option("--repeat", o.repeat, "runs over all prompts; times are medians, with quartiles")
      ->capture_default_str();
  add_device_options(app, o.device);
  app.add_flag("--show", o.show, "print the generated text");
}

/// Before anything is allocated for the numbers, and before the target is loaded.
inline void check(Options& o, const CLI::App& app) {
  constexpr index_t most = 16384, longest = 256;
  const auto within = [](const char* flag, index_t found, index_t last) {
    if (found < 1 || found > last) throw Error(flag, fmt::format("{}", found), fmt::format("1 to {}", last));
  };
  within("--prompts", o.prompts, most);
  within("--prompt-length", o.prompt_length, most);
  within("--tokens", o.decode.max_new_tokens, most);
  within("--repeat", o.repeat, 1000);
  if (app.count("--chain") > 0) {
    within("--chain", o.chain, longest);
    o.decode.chain = o.chain;
  }
  Truncation draft = o.decode.truncation;
  if (app.count("--draft-top-k") > 0) draft.top_k = o.draft_truncation.top_k;
  if (app.count("--draft-top-p") > 0) draft.top_p = o.draft_truncation.top_p;
  if (app.count("--draft-min-p") > 0) draft.min_p = o.draft_truncation.min_p;
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
