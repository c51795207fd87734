/// \file
/// Tokens per second of what the main job does on k3-tiny: a training step of each draft (8 x 192 tokens; EAGLE-3: 5
/// TTT steps, whole and in its parts), target forwards of the sizes that decoding and training use, and decoding
/// itself. Run in the project's root.

#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>

#include <k3spec/decode/plain.hpp>
#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>
#include <k3spec/target/load.hpp>

namespace {

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Draft = Eagle3Draft<Config>;
const std::filesystem::path data = "examples/data/k3-tiny";
constexpr index_t batch = 8, length = 192, ttt_steps = 5;

Parameters<K3Target<Config>, float> load() {
  Parameters<K3Target<Config>, float> parameters;
  load_target<Config>(data, parameters);
  return parameters;
}

std::vector<index_t> text(index_t count) {
  std::ifstream file(data / "heldout.txt", std::ios::binary);
  std::vector<index_t> ids;
  for (std::istreambuf_iterator<char> c(file), end; c != end && static_cast<index_t>(ids.size()) < count; ++c) {
    ids.push_back(static_cast<unsigned char>(*c));
  }
  return ids;
}

DraftVocabulary first_letters() {
  std::vector<index_t> ids(Config::draft_vocab_size);
  std::iota(ids.begin(), ids.end(), index_t{64});
  return DraftVocabulary(ids, Config::vocab_size);
}

void count_tokens(benchmark::State& state, index_t tokens) {
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * tokens), benchmark::Counter::kIsRate);
}

/// Arguments: sequences, new tokens of each, threads.
void target_forward(benchmark::State& state) {
  const index_t sequences = state.range(0), tokens = state.range(1);
  const Cpu cpu{static_cast<int>(state.range(2))};
  const auto parameters = load();
  const FrozenTarget<Config, float> target(parameters.weights());
  FrozenTarget<Config, float>::State memory({sequences, length + tokens, tokens < length ? tokens : 0});
  Arena arena(FrozenTarget<Config, float>::scratch_bytes(sequences, std::max(tokens, length)));
  Buffer<float> last(sequences * std::max(tokens, length) * Config::hidden_size);
  const auto ids = text(sequences * length);
  const auto run = [&](index_t n) {
    target.forward(cpu, memory, Matrix<const index_t>(ids.data(), sequences, n),
                   {Matrix<float>(last.data(), sequences * n, Config::hidden_size)}, arena);
  };
  if (tokens < length) run(length);  // decoding goes on behind a prompt
  for (auto _ : state) {
    if (tokens < length) {
      run(tokens);
      memory.accept(0);
    } else {
      for (index_t b = 0; b < sequences; ++b) memory.reset(b);
      run(tokens);
    }
  }
  count_tokens(state, sequences * tokens);
}

template <class Trainer>
void training_step(benchmark::State& state, typename Trainer::Setup setup, const TrainSettings& settings) {
  Trainer trainer(Cpu{static_cast<int>(state.range(0))}, load(), std::move(setup), settings);
  const auto ids = text(batch * length);
  for (auto _ : state) trainer.step(TextWindows{Matrix<const index_t>(ids.data(), batch, length)});
  count_tokens(state, batch * length);
}

TrainSettings batches() {
  TrainSettings settings;
  settings.batch = batch;
  settings.length = length;
  return settings;
}

/// Argument: threads, here and below.
void training_step_eagle3(benchmark::State& state) {
  TrainSettings settings = batches();
  settings.ttt_steps = ttt_steps;
  training_step<Eagle3Trainer<Config, Config, float>>(state, {first_letters(), {1, 3, 4}}, settings);
}
void training_step_dflash(benchmark::State& state) {
  training_step<DFlashTrainer<Config, configs::KimiK3TinyDFlash, float>>(state, {{1, 3, 4}}, batches());
}
void training_step_dspark(benchmark::State& state) {
  training_step<DSparkTrainer<Config, configs::KimiK3TinyDSpark, float>>(state, {{1, 3, 4}}, batches());
}

/// Only the draft's part of a step: the objective forward and backward on given features.
void objective(benchmark::State& state) {
  const Cpu cpu{static_cast<int>(state.range(0))};
  TargetFeatures<Config, Config, float> features(load(), first_letters(), {1, 3, 4}, {}, {batch, length});
  TttObjective<Draft, float> objective(batch * length, ttt_steps);
  Parameters<Draft, float> parameters;
  Gradients<Draft, float> gradients;
  parameters.initialize(1);
  const auto ids = text(batch * length);
  const auto made = features.make(cpu, TextWindows{Matrix<const index_t>(ids.data(), batch, length)});
  const auto d_w = gradients.weights();
  for (auto _ : state) objective.forward_backward(cpu, parameters.weights(), d_w, made, features.teacher());
  count_tokens(state, batch * length);
}

/// Plain greedy decoding of 64 tokens after 96.
void plain_decoding(benchmark::State& state) {
  const Cpu cpu{static_cast<int>(state.range(0))};
  const auto parameters = load();
  const FrozenTarget<Config, float> target(parameters.weights());
  PlainDecoder<Config, float> decoder(target, 160, DecodeOptions{});
  const auto prompt = text(96);
  for (auto _ : state) decoder.generate(cpu, prompt);
  count_tokens(state, 64);
}

}  // namespace

BENCHMARK(training_step_eagle3)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(training_step_dflash)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(training_step_dspark)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(objective)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(target_forward)
    ->ArgNames({"sequences", "tokens", "threads"})
    ->ArgsProduct({{1}, {1, 6, 64}, {1, 2}})
    ->ArgsProduct({{8}, {192}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(plain_decoding)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_MAIN();
