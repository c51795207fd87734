/// The target's forward: microseconds per call for the calls that decoding and training make.

#include <benchmark/benchmark.h>

#include <k3spec/target/forward.hpp>
#include <k3spec/target/load.hpp>

namespace {

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Frozen = FrozenTarget<Config, float>;

const Frozen& tiny() {
  static const Parameters<K3Target<Config>, float>* const parameters = [] {
    auto* p = new Parameters<K3Target<Config>, float>;
    load_target<Config>(std::filesystem::path("examples/data/k3-tiny"), *p);
    return p;
  }();
  static const Frozen frozen(parameters->weights());
  return frozen;
}

/// Arguments: sequences, new tokens of each, threads. Every call is behind a prompt of 128 tokens.
void target_forward(benchmark::State& state) {
  const index_t sequences = state.range(0), tokens = state.range(1), prompt = 128;
  const Cpu cpu{static_cast<int>(state.range(2))};
  const index_t most = std::max(tokens, prompt);
  TargetState<Config, float> memory({sequences, prompt + most});
  Arena scratch(Frozen::scratch_bytes(sequences, most));
  Buffer<float> last(sequences * most * Config::hidden_size);
  Buffer<index_t> ids(sequences * most);
  for (index_t i = 0; i < ids.size(); ++i) ids[i] = 32 + i * 37 % 90;
  const auto forward = [&](index_t n) {
    tiny().forward(cpu, memory, Matrix<const index_t>(ids.data(), sequences, n),
                   {Matrix<float>(last.data(), sequences * n, Config::hidden_size)}, scratch);
  };
  const auto begin = [&] {
    for (index_t b = 0; b < sequences; ++b) memory.reset(b);
    forward(prompt);
  };
  begin();
  for (auto _ : state) {
    if (tokens <= memory.size().rollback) {
      forward(tokens);
      memory.accept(0);
    } else {
      state.PauseTiming();
      begin();
      state.ResumeTiming();
      forward(tokens);
    }
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * sequences * tokens), benchmark::Counter::kIsRate);
}

}  // namespace

BENCHMARK(target_forward)
    ->ArgNames({"sequences", "tokens", "threads"})
    ->ArgsProduct({{1}, {1, 6, 64}, {1, 2}})
    ->Args({8, 6, 1})
    ->Args({8, 6, 2})
    ->Args({8, 192, 1})
    ->Args({8, 192, 2})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

BENCHMARK_MAIN();
