// Decodes held-out text plainly and with drafts of any kind: how many tokens a target forward gives, and how fast.
// Greedy decoding must give the same tokens with and without a draft.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <k3spec/core/format.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/target/load.hpp>

#include "../common/eagle3_form.hpp"
#include "../common/program.hpp"
#include "contestant.hpp"

using namespace k3spec;
using examples::Contestant;
using examples::TargetConfig;

namespace {

struct Options {
  std::filesystem::path target = "examples/data/k3-tiny";
  std::vector<std::filesystem::path> drafts;
  std::filesystem::path text = "examples/data/k3-tiny/heldout.txt";
  examples::DeviceOptions device;
  index_t prompts = 8, prompt_length = 96, repeat = 5, chain = 0;
  DecodeOptions decode;
  bool show = false;
};

/// One contestant's runs over all prompts.
struct Outcome {
  std::vector<DecodeResult> results;
  std::vector<double> seconds;  ///< of each run

  index_t tokens() const {
    index_t sum = 0;
    for (const auto& r : results) sum += static_cast<index_t>(r.tokens.size());
    return sum;
  }
  DecodeResult sums() const {
    DecodeResult all;
    for (const auto& r : results) {
      all.target_forwards += r.target_forwards, all.drafted += r.drafted, all.accepted += r.accepted;
    }
    return all;
  }
  double median() const {
    auto sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

void add_options(CLI::App& app, Options& o) {
  o.decode.eos_token_id = TargetConfig::eos_token_id;
  app.add_option("--target", o.target, "folder of the target's checkpoint")->capture_default_str();
  app.add_option("--draft", o.drafts, "folder of a draft that train_draft wrote; may be given several times")
      ->required();
  app.add_option("--text", o.text, "text whose pieces are the prompts")->capture_default_str();
  app.add_option("--prompts", o.prompts, "how many prompts")->capture_default_str();
  app.add_option("--prompt-length", o.prompt_length, "bytes of each")->capture_default_str();
  app.add_option("--tokens", o.decode.max_new_tokens, "tokens to generate after each")->capture_default_str();
  app.add_option("--chain", o.chain, "tokens drafted for one target forward [as many as each draft was trained for]");
  app.add_option("--temperature", o.decode.temperature, "0: greedy; else tokens are drawn")->capture_default_str();
  app.add_option("--seed", o.decode.seed, "of what is drawn")->capture_default_str();
  app.add_option("--min-confidence", o.decode.min_confidence,
                 "DSpark ends a block before a token whose chance to be accepted, with all before it, it takes to be "
                 "lower: the product of its confidences")
      ->capture_default_str();
  examples::add_named(app, "--verification", o.decode.verification,
                      "how drafted tokens are accepted at a temperature: one by one, or all of a block together");
  app.add_option("--repeat", o.repeat, "runs over all prompts; times are the median")->capture_default_str();
  examples::add_device_options(app, o.device);
  app.add_flag("--show", o.show, "print the generated text");
}

/// Before anything is allocated for the numbers.
void check(Options& o, bool chain_given) {
  constexpr index_t most = 16384, longest = 256;
  const auto within = [](const char* flag, index_t found, index_t last) {
    if (found < 1 || found > last) throw Error(flag, fmt::format("{}", found), fmt::format("1 to {}", last));
  };
  within("--prompts", o.prompts, most);
  within("--prompt-length", o.prompt_length, most);
  within("--tokens", o.decode.max_new_tokens, most);
  within("--repeat", o.repeat, 1000);
  if (chain_given) {
    within("--chain", o.chain, longest);
    o.decode.chain = o.chain;
  }
}

/// `count` pieces of a file at equal distances.
std::vector<std::vector<index_t>> read_prompts(const std::filesystem::path& path, index_t count, index_t length) {
  const std::string text = io::read_file(path);
  const auto size = static_cast<index_t>(text.size());
  if (size < length) throw Error(path.string() + ": bytes", std::to_string(size), "at least " + std::to_string(length));
  std::vector<std::vector<index_t>> prompts;
  for (index_t i = 0; i < count; ++i) {
    const index_t begin = (size - length) * i / count;
    std::vector<index_t> ids;
    for (index_t j = begin; j < begin + length; ++j) {
      ids.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(j)]));
    }
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

template <DraftKind Kind, class Config>
void check_file(const io::json& config, const std::string& file) {
  io::check_draft_config<Kind, Config>(config, file);
  const auto layers = io::draft_layer_ids<Kind, Config>(config, file);
  const auto conventions = io::draft_conventions<Kind>(config, file);
  if constexpr (Kind == DraftKind::eagle3) {
    (void)eagle3_taps(layers, TargetConfig::num_hidden_layers, conventions);
  } else {
    (void)block_taps(layers, TargetConfig::num_hidden_layers, conventions);
  }
}

DraftKind kind_of(const io::json& config, const std::string& file) {
  const auto kind = io::draft_kind(config);
  if (!kind) throw Error(file + ": architectures", "none of a draft", "a draft's");
  return *kind;
}

/// Before the target is loaded, which takes longest.
/// \throws Error on a draft that is none of those compiled in
void check_drafts(const std::vector<std::filesystem::path>& folders) {
  for (const auto& folder : folders) {
    const std::string file = (folder / draft_config_name).string();
    const io::json config = io::read_json(file);
    switch (kind_of(config, file)) {
      case DraftKind::eagle3:
        examples::with_eagle3_form(examples::eagle3_form_of(config),
                                   [&]<class Config> { check_file<DraftKind::eagle3, Config>(config, file); });
        break;
      case DraftKind::dflash:
        check_file<DraftKind::dflash, configs::KimiK3TinyDFlash>(config, file);
        break;
      case DraftKind::dspark:
        check_file<DraftKind::dspark, configs::KimiK3TinyDSpark>(config, file);
        break;
    }
  }
}

/// The draft in a folder, by what its config.json says it is.
Contestant open_draft(const examples::Target& target, const std::filesystem::path& folder, index_t capacity,
                      const Options& o) {
  const auto file = folder / draft_config_name;
  const io::json config = io::read_json(file);
  const DraftKind kind = kind_of(config, file.string());
  DecodeOptions options = o.decode;
  if (kind != DraftKind::dspark) options.min_confidence = 0;
  if (kind == DraftKind::eagle3) {
    const auto form = examples::eagle3_form_of(config);
    const auto make =
        form.backbone == Backbone::deepseek_v3 ? examples::make_eagle3_deepseek_v3 : examples::make_eagle3_kimi_k3;
    return make(form.version, target, folder, capacity, options);
  }
  if (kind == DraftKind::dflash) return examples::make_dflash(target, folder, capacity, options);
  return examples::make_dspark(target, folder, capacity, options);
}

Contestant plain_decoding(const examples::Target& target, index_t capacity, const DecodeOptions& options) {
  const auto decoder = std::make_shared<PlainDecoder<TargetConfig, float>>(target, capacity, options);
  return {"plain", 0,
          [decoder](const Cpu& cpu, std::span<const index_t> prompt) { return decoder->generate(cpu, prompt); }};
}

void run_once(const Cpu& cpu, const Contestant& contestant, const std::vector<std::vector<index_t>>& prompts,
              Outcome& outcome) {
  outcome.results.clear();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& prompt : prompts) outcome.results.push_back(contestant.generate(cpu, prompt));
  outcome.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

std::string printable(const std::vector<index_t>& tokens) {
  std::string text;
  for (const index_t t : tokens) {
    if (t < 256) text += t == '\n' ? ' ' : static_cast<char>(t);
  }
  return text;
}

bool same_tokens(const Outcome& a, const Outcome& b) {
  return std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                    [](const auto& x, const auto& y) { return x.tokens == y.tokens; });
}

/// \param plain  the outcome of plain decoding
void print_row(const Contestant& c, const Outcome& outcome, const Outcome& plain, const Options& o) {
  const DecodeResult sum = outcome.sums();
  const auto forwards = static_cast<double>(sum.target_forwards);
  const auto or_dash = [](bool is_there, const std::string& text) { return is_there ? text : std::string("-"); };
  const bool drafts = c.chain > 0, verified = sum.target_forwards > 0;
  const auto prompts = static_cast<index_t>(outcome.results.size());
  fmt::print(
      "{:<8} {:>7} {:>9} {:>14} {:>20} {:>13} {:>9} {:>12}\n", c.name, or_dash(drafts, fmt::format("{}", c.chain)),
      or_dash(drafts && sum.drafted > 0,
              fmt::format("{:.1f} %", 100 * static_cast<double>(sum.accepted) / static_cast<double>(sum.drafted))),
      or_dash(drafts && verified, fmt::format("{:.2f}", 1 + static_cast<double>(sum.accepted) / forwards)),
      or_dash(verified, fmt::format("{:.3f}", static_cast<double>(outcome.tokens() - prompts) / forwards)),
      fmt::format("{:.3f}", 1000 * outcome.median() / static_cast<double>(outcome.tokens())),
      fmt::format("{:.2f}", plain.median() / static_cast<double>(plain.tokens()) /
                                (outcome.median() / static_cast<double>(outcome.tokens()))),
      or_dash(drafts && o.decode.temperature == 0, same_tokens(outcome, plain) ? "yes" : "NO"));
}

void print_table(const std::vector<Contestant>& all, const std::vector<Outcome>& outcomes, const Options& o) {
  fmt::print("{} prompts, {} tokens; times are the median of {} runs\n", o.prompts, outcomes.front().tokens(),
             o.repeat);
  fmt::print("{:<8} {:>7} {:>9} {:>14} {:>20} {:>13} {:>9} {:>12}\n", "draft", "drafted", "accepted", "accept length",
             "tokens per forward", "ms per token", "speed-up", "same tokens");
  for (std::size_t i = 0; i < all.size(); ++i) print_row(all[i], outcomes[i], outcomes.front(), o);
}

void print_text(const std::vector<Contestant>& all, const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t p = 0; p < outcomes[i].results.size(); ++p) {
      const DecodeResult& r = outcomes[i].results[p];
      fmt::print("{} {}: {:.2f} tokens per forward: {}\n", all[i].name, p, r.tokens_per_forward(), printable(r.tokens));
    }
  }
}

/// \throws Error when there is no draft that has a confidence
void check_confidence(const Options& o, const std::vector<Contestant>& all) {
  const bool asked = o.decode.min_confidence > 0;
  if (!asked || std::any_of(all.begin(), all.end(), [](const auto& c) { return c.name == "dspark"; })) return;
  throw Error("--min-confidence", fmt::format("{}", o.decode.min_confidence), "a DSpark draft for it");
}

void decode(Options& o, bool chain_given) {
  const Cpu cpu = examples::make_device(o.device);
  check(o, chain_given);
  check_drafts(o.drafts);
  Parameters<K3Target<TargetConfig>, float> target_parameters;
  load_target<TargetConfig>(o.target, target_parameters);
  const examples::Target target(target_parameters.weights());
  const auto prompts = read_prompts(o.text, o.prompts, o.prompt_length);
  const index_t capacity = o.prompt_length + o.decode.max_new_tokens;

  std::vector<Contestant> all{plain_decoding(target, capacity, o.decode)};
  for (const auto& folder : o.drafts) all.push_back(open_draft(target, folder, capacity, o));
  check_confidence(o, all);
  for (const auto& c : all) (void)c.generate(cpu, prompts.front());  // warms caches and threads
  std::vector<Outcome> outcomes(all.size());
  for (index_t r = 0; r < o.repeat; ++r) {
    // In turns, so that a slow moment of the machine does not fall on one of them.
    for (std::size_t i = 0; i < all.size(); ++i) run_once(cpu, all[i], prompts, outcomes[i]);
  }
  if (o.show) print_text(all, outcomes);
  print_table(all, outcomes, o);
  if (o.decode.temperature != 0) return;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (same_tokens(outcomes[i], outcomes.front())) continue;
    throw Error("tokens with the " + all[i].name + " draft", "others", "those of plain decoding");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Decodes held-out text for a Kimi K3 target with and without drafts");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  const bool chain_given = app.count("--chain") > 0;
  return examples::run_program("speculate", [&] { decode(options, chain_given); });
}
