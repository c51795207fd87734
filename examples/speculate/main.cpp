// Decodes held-out text plainly and with drafts of any kind: how many tokens a target forward gives, how long the first
// token takes and how long each other one. Greedy decoding must give the same tokens with and without a draft.
//
// Nothing that calculates is to be instantiated here: this is compiled with less optimisation than the other units, and
// of a template that several units instantiate the program has any one's.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <k3spec/batches/token_data.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/target/load.hpp>

#include "../common/compiled_in.hpp"
#include "../common/memory.hpp"
#include "../common/notes.hpp"
#include "../common/program.hpp"
#include "../common/token_files.hpp"
#include "contestant.hpp"
#include "json_report.hpp"
#include "options.hpp"
#include "report.hpp"

using namespace k3spec;
using examples::Contestant;
using examples::Entry;
using examples::Options;
using examples::Outcome;
using examples::TargetConfig;

namespace {

/// Where documents begin that are at least so long.
std::vector<index_t> long_documents(const TokenData& data, index_t length) {
  std::vector<index_t> begins;
  index_t begin = 0;
  for (const index_t end : data.document_ends()) {
    if (end - begin >= length) begins.push_back(begin);
    begin = end;
  }
  return begins;
}

/// `count` pieces of the data at equal distances; where it has documents, the beginnings of some, as evenly chosen.
std::vector<std::vector<index_t>> read_prompts(const Options& o) {
  examples::refuse_idle_bin(o.bin_type, {o.text});
  examples::check_memory("--text", io::held_bytes(o.text));
  const TokenData data(o.text, TargetConfig::vocab_size, o.bin_type);
  const index_t count = o.prompts, length = o.prompt_length;
  if (data.size() < length) {
    throw Error(data.path(), fmt::format("{} {}", data.size(), data.unit()),
                fmt::format("{}, the length of a prompt", length));
  }
  const auto begins = data.has_documents() ? long_documents(data, length) : std::vector<index_t>{};
  const auto found = static_cast<index_t>(begins.size());
  if (data.has_documents() && found < count) {
    throw Error(data.path(), fmt::format("{} documents of {} tokens or more", found, length),
                fmt::format("{}, one for each prompt", count));
  }
  std::vector<std::vector<index_t>> prompts;
  for (index_t i = 0; i < count; ++i) {
    const index_t begin =
        data.has_documents() ? begins[static_cast<std::size_t>(found * i / count)] : (data.size() - length) * i / count;
    prompts.emplace_back(static_cast<std::size_t>(length));
    data.read(begin, prompts.back());
  }
  return prompts;
}

template <DraftKind Kind, class Config>
void check_file(const io::json& config, const std::string& file) {
  examples::say_notes(io::check_draft_config<Kind, Config>(config, file));
  const auto layers = io::draft_layer_ids<Kind, Config>(config, file);
  const auto conventions = io::draft_conventions<Kind>(config, file);
  if constexpr (Kind == DraftKind::eagle3) {
    (void)eagle3_taps(layers, TargetConfig::num_hidden_layers, conventions);
  } else {
    (void)block_taps(layers, TargetConfig::num_hidden_layers, conventions);
  }
}

/// Of the kind that has chains of `longest` tokens at most.
void check_chain(const Options& o, DraftKind kind, index_t longest) {
  if (o.decode.chain.value_or(1) <= longest) return;
  throw Error("--chain", fmt::format("{} with a draft of kind {}", *o.decode.chain, examples::name_of(kind)),
              fmt::format("1 to {}", longest));
}

/// Before the target is loaded, which takes longest.
/// \throws Error on a draft that is none of those compiled in, and on flags that none of the drafts has a use for
void check_drafts(const Options& o) {
  bool confident = false;
  for (const auto& folder : o.drafts) {
    const std::string file = (folder / draft_config_name).string();
    const io::json config = io::read_json(file);
    examples::say_notes(io::ModelTensors::open(folder).notes());
    examples::with_draft(examples::draft_type_of(config, file), [&]<class Config> {
      constexpr DraftKind kind = examples::draft_kind_of<Config>();
      if constexpr (kind == DraftKind::eagle3) check_chain(o, kind, Eagle3Draft<Config>::max_steps);
      check_file<kind, Config>(config, file);
      confident = confident || kind == DraftKind::dspark;
    });
  }
  if (confident || o.decode.min_confidence == 0) return;
  throw Error("--min-confidence", fmt::format("{}", o.decode.min_confidence), "a DSpark draft for it");
}

/// The draft in a folder, by what its config.json says it is.
Entry enter_draft(const std::filesystem::path& folder, index_t capacity, const Options& o, bool adaptive) {
  const auto file = folder / draft_config_name;
  const io::json config = io::read_json(file);
  const std::size_t type = examples::draft_type_of(config, file.string());
  const DraftKind kind = examples::draft_types[type].kind;
  DecodeOptions options = o.decode;
  options.adaptive_length = adaptive;
  if (kind != DraftKind::dspark) options.min_confidence = 0;
  if (kind == DraftKind::eagle3) {
    if (!adaptive && !options.chain && !io::draft_conventions<DraftKind::eagle3>(config, file.string()).ttt_steps) {
      examples::say(fmt::format("speculate: {} does not say for how many steps the draft was trained (ttt_steps): {}",
                                printable(file.string()), "5 tokens are drafted at a time unless --chain says so"));
    }
  }
  return examples::with_draft(type, [&]<class Config> { return examples::enter<Config>(folder, capacity, options); });
}

/// Refuses what the machine has no memory for.
void check_plan(const std::vector<Entry>& entries, index_t capacity, const DecodeOptions& options) {
  std::uint64_t bytes = sizeof(float) * static_cast<std::uint64_t>(parameter_count<K3Target<TargetConfig>>) +
                        PlainDecoder<TargetConfig, float>::bytes(capacity, options);
  for (const Entry& entry : entries) bytes += entry.bytes;
  examples::check_memory("--prompt-length, --tokens and --chain", bytes);
}

void decode(Options& o) {
  const Cpu cpu = examples::make_host(o.device);
  examples::complete(o);
  for (auto& draft : o.drafts) draft = examples::found_draft(draft);
  check_drafts(o);
  const auto prompts = read_prompts(o);
  const index_t capacity = o.prompt_length + o.decode.max_new_tokens;
  std::vector<Entry> entries;
  for (const auto& folder : o.drafts) {
    entries.push_back(enter_draft(folder, capacity, o, false));
    if (o.adaptive) entries.push_back(enter_draft(folder, capacity, o, true));
  }
  check_plan(entries, capacity, o.decode);
  const auto loaded = examples::load_target(cpu, o.target, o.weights);
  examples::say_notes(loaded.notes);
  const examples::Target& target = loaded.target;

  std::vector<Contestant> all{examples::plain_decoding(target, capacity, o.decode)};
  for (const Entry& entry : entries) all.push_back(entry.load(target));
  if (o.json != "-") {
    fmt::print("{}\n{}\n", examples::device_text(o.device), examples::weights_text(o.weights, target.bytes()));
  }
  for (const auto& c : all) (void)c.generate(cpu, prompts.front());  // warms caches and threads
  std::vector<Outcome> outcomes(all.size());
  for (index_t r = 0; r < o.repeat; ++r) {
    // In turns, so that a slow moment of the machine does not fall on one of them.
    for (std::size_t i = 0; i < all.size(); ++i) examples::run_once(cpu, all[i], prompts, outcomes[i]);
  }
  if (o.show) examples::print_text(all, outcomes);
  if (o.json != "-") examples::print_table(all, outcomes, o);
  if (o.json) examples::write_report(*o.json, examples::json_report(all, outcomes, o, target.bytes()));
  if (o.decode.temperature != 0) return;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (examples::same_tokens(outcomes[i], outcomes.front())) continue;
    throw Error("tokens with the " + all[i].name + " draft", "others", "those of plain decoding");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("speculate", "Decodes held-out text for a Kimi K3 target with and without drafts",
                               [&](examples::Arguments& arguments) {
                                 Options options;
                                 examples::add_options(arguments, options);
                                 arguments.parse(argc, argv);
                                 decode(options);
                               });
}
