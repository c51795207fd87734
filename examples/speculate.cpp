// Decodes held-out text with a draft and without one: the tokens must be the same, the time should not be.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/target/load.hpp>

#include "common/program.hpp"

using namespace k3spec;

namespace {

using Config = configs::KimiK3Tiny;
using Draft = Eagle3Draft<Config>;

struct Options {
  std::filesystem::path target = "examples/data/k3-tiny", draft;
  std::filesystem::path text = "examples/data/k3-tiny/heldout.txt";
  examples::DeviceOptions device;
  index_t prompts = 8, prompt_length = 96;
  DecodeOptions decode;
  bool show = false;
};

struct Timed {
  std::vector<DecodeResult> results;
  double seconds = 0;
};

void add_options(CLI::App& app, Options& o) {
  o.decode.eos_token_id = Config::eos_token_id;
  o.decode.chain = 5;
  app.add_option("--target", o.target, "folder of the target's checkpoint")->capture_default_str();
  app.add_option("--draft", o.draft, "folder of the EAGLE-3 draft that train_draft wrote")->required();
  app.add_option("--text", o.text, "text whose pieces are the prompts")->capture_default_str();
  app.add_option("--prompts", o.prompts, "how many prompts")->capture_default_str();
  app.add_option("--prompt-length", o.prompt_length, "bytes of each")->capture_default_str();
  app.add_option("--tokens", o.decode.max_new_tokens, "tokens to generate after each")->capture_default_str();
  app.add_option("--chain", *o.decode.chain, "tokens drafted for one target forward")->capture_default_str();
  examples::add_device_options(app, o.device);
  app.add_flag("--show", o.show, "print the generated text");
}

/// Before anything is allocated for the numbers.
void check(const Options& o) {
  constexpr index_t most = 16384;
  const auto within = [](const char* flag, index_t found, index_t last) {
    if (found < 1 || found > last) throw Error(flag, fmt::format("{}", found), fmt::format("1 to {}", last));
  };
  within("--prompts", o.prompts, most);
  within("--prompt-length", o.prompt_length, most);
  within("--tokens", o.decode.max_new_tokens, most);
  within("--chain", *o.decode.chain, Draft::max_steps);
}

/// `count` pieces of a file at equal distances.
std::vector<std::vector<index_t>> read_prompts(const std::filesystem::path& path, index_t count, index_t length) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path.string(), "nothing that can be read", "a text file");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
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

template <class Decoder>
Timed run(const Cpu& cpu, Decoder& decoder, const std::vector<std::vector<index_t>>& prompts) {
  Timed timed;
  const auto start = std::chrono::steady_clock::now();
  for (const auto& prompt : prompts) timed.results.push_back(decoder.generate(cpu, prompt));
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return timed;
}

std::string printable(const std::vector<index_t>& tokens) {
  std::string text;
  for (const index_t t : tokens) {
    if (t < 256) text += t == '\n' ? ' ' : static_cast<char>(t);
  }
  return text;
}

/// Of all prompts together.
std::string per_forward(index_t tokens, const DecodeResult& sum) {
  if (sum.target_forwards == 0) return "none: each prompt's own forward gave its only token";
  return fmt::format("{:.3f}   ({:.1f} % of drafted tokens accepted)",
                     static_cast<double>(tokens) / static_cast<double>(sum.target_forwards),
                     100 * static_cast<double>(sum.accepted) / static_cast<double>(sum.drafted));
}

/// \returns whether every prompt's tokens are the same in both
bool report(const Timed& plain, const Timed& drafted, const Options& o) {
  DecodeResult sum;
  index_t tokens = 0;
  bool same = true;
  for (std::size_t i = 0; i < plain.results.size(); ++i) {
    const DecodeResult& r = drafted.results[i];
    same = same && r.tokens == plain.results[i].tokens;
    tokens += static_cast<index_t>(r.tokens.size());
    sum.target_forwards += r.target_forwards;
    sum.drafted += r.drafted;
    sum.accepted += r.accepted;
    if (o.show) fmt::print("{:2}: {:.2f} tokens per forward: {}\n", i, r.tokens_per_forward(), printable(r.tokens));
  }
  const auto prompts = static_cast<index_t>(plain.results.size());
  fmt::print("{} prompts, {} tokens, chain of {}\n", prompts, tokens, *o.decode.chain);
  fmt::print("tokens per target forward  {}\n", per_forward(tokens - prompts, sum));
  fmt::print("plain decoding             {:.0f} tokens/s\n", static_cast<double>(tokens) / plain.seconds);
  fmt::print("with the draft             {:.0f} tokens/s   {:.2f} times as fast\n",
             static_cast<double>(tokens) / drafted.seconds, plain.seconds / drafted.seconds);
  fmt::print("the same tokens            {}\n", same ? "yes, all of them" : "NO");
  return same;
}

void decode(const Options& o) {
  const Cpu cpu = examples::make_device(o.device);
  check(o);
  Parameters<K3Target<Config>, float> target_parameters;
  load_target<Config>(o.target, target_parameters);
  const FrozenTarget<Config, float> target(target_parameters.weights());

  const auto draft = load_draft<Draft, float>(o.draft);
  const auto to_target = draft.vocabulary.target_ids();

  const auto prompts = read_prompts(o.text, o.prompts, o.prompt_length);
  const index_t capacity = o.prompt_length + o.decode.max_new_tokens;
  PlainDecoder<Config, float> plain(target, capacity, o.decode);
  SpeculativeDecoder<Config, Eagle3Session<Draft, float>> drafted(
      target, draft.layer_ids, {draft.parameters.weights(), {to_target.data(), to_target.data() + to_target.size()}},
      capacity, o.decode);
  (void)plain.generate(cpu, prompts.front());  // warms caches and threads
  const Timed slow = run(cpu, plain, prompts);
  const Timed fast = run(cpu, drafted, prompts);
  if (!report(slow, fast, o)) throw Error("tokens with the draft", "others", "those of plain decoding");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Decodes held-out text for a Kimi K3 target with and without an EAGLE-3 draft");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return examples::run_program("speculate", [&] { decode(options); });
}
