/// The target's forward and its head for a few new tokens of one text, on the shape of the public miniature
/// (KimiK3Small: 14M parameters in 4 layers, a head of 84M; random weights): what verifying drafted tokens costs beside
/// plain decoding's one row. Weights as floats, or as a checkpoint would have them, matrices in bfloat16 and experts in
/// MXFP4, which the prepacked weights are then kept in.

#include <benchmark/benchmark.h>

#include <memory>

#include <k3spec/target/forward.hpp>

namespace {

using namespace k3spec;
using Config = configs::KimiK3Small;
using Model = K3Target<Config>;
using Frozen = FrozenTarget<Config, float>;

/// The nearest of the values that MXFP4 has beside 2^-8, or that bfloat16 has.
float rounded(float x, bool expert) {
  if (!expert) return static_cast<float>(bfloat16(x));
  unsigned best = 0;
  for (unsigned nibble = 1; nibble < 16; ++nibble) {
    const auto off = [&](unsigned n) { return std::abs(mxfp4_value(n) * 0x1p-8F - x); };
    if (off(nibble) < off(best)) best = nibble;
  }
  return mxfp4_value(best) * 0x1p-8F;
}

/// A target and the parameters that it views.
struct Made {
  Parameters<Model, float> parameters;
  std::unique_ptr<Frozen> target;

  explicit Made(bool as_stored) {
    parameters.initialize(1);
    auto weights = parameters.mutable_weights();
    if (as_stored) {
      Model::visit(weights, Path{}, [](const Path& path, auto& view, auto) {
        const bool expert = path.str().find(".experts.") != std::string::npos;
        for (index_t i = 0; i < view.size(); ++i) view.data()[i] = rounded(view.data()[i], expert);
      });
    }
    target = std::make_unique<Frozen>(parameters.weights());
  }
};

const Frozen& target(bool as_stored) {
  static const Made floats(false), stored(true);
  return *(as_stored ? stored : floats).target;
}

/// Arguments here and below: rows, threads, whether weights are as stored. Every call is behind 128 tokens.
void layers(benchmark::State& state) {
  const index_t rows = state.range(0), prompt = 128;
  const Cpu cpu{static_cast<int>(state.range(1))};
  const Frozen& model = target(state.range(2) != 0);
  Frozen::State memory({1, prompt + rows, rows});
  Arena arena(Frozen::scratch_bytes(1, prompt));
  Buffer<float> last(prompt * Config::hidden_size);
  Buffer<index_t> ids(prompt);
  for (index_t i = 0; i < ids.size(); ++i) ids[i] = i * 977 % Config::vocab_size;
  const auto run = [&](index_t n) {
    model.forward(cpu, memory, Matrix<const index_t>(ids.data(), 1, n),
                  {Matrix<float>(last.data(), n, Config::hidden_size)}, arena);
  };
  run(prompt);
  for (auto _ : state) {
    run(rows);
    memory.accept(0);
  }
}

void head(benchmark::State& state) {
  const index_t rows = state.range(0);
  const Cpu cpu{static_cast<int>(state.range(1))};
  const Frozen& model = target(state.range(2) != 0);
  Buffer<float> last(rows * Config::hidden_size), logits(rows * Config::vocab_size);
  for (index_t i = 0; i < last.size(); ++i) last[i] = static_cast<float>(i % 7) - 3;
  for (auto _ : state) {
    model.compute_logits(cpu, Matrix<float>(last.data(), rows, Config::hidden_size),
                         Matrix<float>(logits.data(), rows, Config::vocab_size));
  }
}

}  // namespace

BENCHMARK(layers)
    ->ArgNames({"rows", "threads", "as_stored"})
    ->ArgsProduct({{1, 6, 16}, {1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(head)
    ->ArgNames({"rows", "threads", "as_stored"})
    ->ArgsProduct({{1, 6, 16}, {1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_MAIN();
