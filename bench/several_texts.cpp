/// Texts decoded together: tokens a second, with each kind of draft and without one. Drafts are the trained ones of the
/// tests, prompts are pieces of held-out text, 64 bytes each, and 64 tokens are generated after each.

#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <memory>

#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/target/load.hpp>

namespace {

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Target = FrozenTarget<Config, float>;
constexpr index_t prompt_length = 64, new_tokens = 64, prompts_of_a_run = 32;

const Target& target() {
  static const auto parameters = [] {
    auto p = std::make_unique<Parameters<K3Target<Config>, float>>();
    load_target<Config>("examples/data/k3-tiny", *p);
    return p;
  }();
  static const Target frozen(parameters->weights());
  return frozen;
}

const std::vector<std::vector<index_t>>& prompts() {
  static const auto all = [] {
    std::ifstream file("examples/data/k3-tiny/heldout.txt", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<std::vector<index_t>> pieces;
    for (index_t i = 0; i < prompts_of_a_run; ++i) {
      const auto begin = (static_cast<index_t>(text.size()) - prompt_length) * i / prompts_of_a_run;
      std::vector<index_t>& ids = pieces.emplace_back();
      for (index_t j = begin; j < begin + prompt_length; ++j) {
        ids.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(j)]));
      }
    }
    return pieces;
  }();
  return all;
}

/// Arguments: texts at a time, threads, temperature in hundredths.
template <class Session>
void run(benchmark::State& state, std::span<const index_t> layers, const typename Session::Conventions& conventions,
         const typename Session::Source& source) {
  DecodeOptions o;
  o.max_new_tokens = new_tokens;
  o.temperature = static_cast<double>(state.range(2)) / 100;
  SpeculativeDecoder<Config, Session> decoder(target(), layers, conventions, source, prompt_length + new_tokens, o,
                                              state.range(0));
  const Cpu cpu{static_cast<int>(state.range(1))};
  index_t tokens = 0, forwards = 0;
  for (auto _ : state) {
    for (const DecodeResult& r : decoder.generate_all(cpu, prompts())) {
      tokens += static_cast<index_t>(r.tokens.size()), forwards += r.target_forwards;
    }
  }
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
  state.counters["tokens/round"] = static_cast<double>(tokens) / static_cast<double>(forwards);
}

template <class Draft>
const LoadedDraft<Draft, float>& trained(const char* name) {
  static const auto draft = load_draft<Draft, float>(std::string("tests/data/drafts/") + name);
  return draft;
}

void no_draft(benchmark::State& state) { run<NoDraft<Config, float>>(state, {}, {}, {}); }

void eagle3(benchmark::State& state) {
  using Draft = Eagle3Draft<Config>;
  const auto& draft = trained<Draft>("eagle3_k3_tiny");
  const auto ids = draft.vocabulary.target_ids();
  run<Eagle3Session<Draft, float>>(state, draft.layer_ids, draft.conventions,
                                   {draft.parameters.weights(), {ids.data(), ids.data() + ids.size()}});
}

template <class Draft>
void block(benchmark::State& state, const char* name) {
  const auto& draft = trained<Draft>(name);
  run<BlockSession<Draft, float>>(state, draft.layer_ids, draft.conventions, {draft.parameters.weights()});
}
void dflash(benchmark::State& state) { block<DFlashDraft<configs::KimiK3TinyDFlash>>(state, "dflash_k3_tiny"); }
void dspark(benchmark::State& state) { block<DSparkDraft<configs::KimiK3TinyDSpark>>(state, "dspark_k3_tiny"); }

void arguments(benchmark::internal::Benchmark* b) {
  b->ArgNames({"texts", "threads", "temperature"})->ArgsProduct({{1, 4, 16}, {1, 2}, {0, 100}});
  b->Unit(benchmark::kMillisecond)->UseRealTime();
}

}  // namespace

BENCHMARK(no_draft)->Apply(arguments);
BENCHMARK(eagle3)->Apply(arguments);
BENCHMARK(dflash)->Apply(arguments);
BENCHMARK(dspark)->Apply(arguments);

BENCHMARK_MAIN();
