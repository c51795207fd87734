/// \file
/// EAGLE-3's attention over packed documents, forward and backward, against the dense form of the same code in the same
/// run: a visibility that claims keys from the row's start for every query, so that each tile is computed and then
/// masked. One row of 4096 tokens, 5 steps of unroll, 4 heads of 16 + 8 / 16 and of 128 + 64 / 128, one thread.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include <k3spec/ops/ttt_attention.hpp>
#include "fastest.hpp"

namespace {

using namespace k3spec;

constexpr index_t length = 4096;
constexpr std::size_t unrolled = 5;
constexpr AttentionSpan span{1, length, length};

/// What a query sees is as before; nothing is left out.
struct Dense : CausalVisibility {
  index_t begin(index_t, index_t) const { return 0; }
};

std::vector<float> numbers(index_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 101) / 50 - 1;
  return x;
}

template <index_t Heads, index_t Nope, index_t Rope, index_t V>
struct Layer {
  using Shape = AttentionHeads<Heads, Nope, Rope, V>;
  static constexpr index_t qk = Heads * (Nope + Rope), width = Heads * (Nope + V);
  std::vector<float> q = numbers(length * qk), d_q = q, o = numbers(length * Heads * V), d_o = o;
  std::vector<LogSumExp<float>> lse = std::vector<LogSumExp<float>>(static_cast<std::size_t>(length * Heads));
  std::vector<float> kv = numbers(length * width), k_rope = numbers(length * Rope);
  std::vector<float> d_kv = numbers(static_cast<index_t>(unrolled) * length * width);
  std::vector<float> d_k_rope = numbers(static_cast<index_t>(unrolled) * length * Rope);
  Arena scratch = Arena(ttt_attention_scratch<Shape, float>(length, unrolled));

  template <class T>
  static Matrix<T> matrix(std::vector<float>& x, index_t columns, std::size_t step = 0) {
    return Matrix<T>(x.data() + static_cast<index_t>(step) * length * columns, length, columns);
  }

  template <class Visible>
  void step(const Visible& visible) {
    using X = const float;
    AttentionSteps<X> keys;
    TttGradients<float> d{matrix<float>(d_q, qk), {}};
    d.into_steps = Into::accumulate;
    for (std::size_t k = 0; k < unrolled; ++k) {
      keys.add({matrix<X>(kv, width), matrix<X>(k_rope, Rope)});
      d.d_steps.add({matrix<float>(d_kv, width, k), matrix<float>(d_k_rope, Rope, k)});
    }
    const TttProblem<Shape, float, Visible> problem{span, matrix<X>(q, qk), keys, visible,
                                                    SqrtScale::of<float>(Shape::qk)};
    const AttentionResult<float> result{matrix<float>(o, Heads * V),
                                        Matrix<LogSumExp<float>>(lse.data(), length, Heads)};
    ttt_attention_forward(Cpu{1}, problem, result);
    ttt_attention_backward(Cpu{1}, problem, result, matrix<X>(d_o, Heads * V), d, scratch);
  }
};

/// Documents of `tokens` each.
template <class Visible, index_t... Dims>
void run(benchmark::State& state, index_t tokens) {
  std::vector<index_t> starts;
  for (index_t t = 0; t < length; ++t) starts.push_back(t / tokens * tokens);
  Visible visible;
  visible.length = length;
  visible.document_starts = starts.data();
  Layer<Dims...> layer;
  layer.step(visible);  // products get their buffers
  for (auto _ : state) layer.step(visible);
}

template <index_t... Dims>
void add(const std::string& name, index_t tokens) {
  const auto one = [&](const char* form, auto function) {
    benchmark::RegisterBenchmark((form + name).c_str(), function, tokens)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1)
        ->Repetitions(5);
  };
  one("visible/", run<CausalVisibility, Dims...>);
  one("dense/", run<Dense, Dims...>);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::vector<std::string> names;
  for (const index_t tokens : {index_t{512}, index_t{150}}) {
    names.push_back("4x16+8/16/documents_of:" + std::to_string(tokens));
    add<4, 16, 8, 16>(names.back(), tokens);
    names.push_back("4x128+64/128/documents_of:" + std::to_string(tokens));
    add<4, 128, 64, 128>(names.back(), tokens);
  }
  bench::Fastest found;
  benchmark::RunSpecifiedBenchmarks(&found);
  bool holds = true;
  for (const std::string& name : names) {
    const double visible = found.seconds("visible/" + name), dense = found.seconds("dense/" + name);
    if (visible == 0 || dense == 0) continue;
    fmt::print("{:<36} {:8.1f} ms, dense {:8.1f} ms, ratio {:.2f}\n", name, visible * 1e3, dense * 1e3,
               dense / visible);
    holds = holds && dense >= 3 * visible;
  }
  if (!holds) fmt::print(stderr, "bench_packed_attention: leaving out other documents is not 3 times as fast\n");
  return holds ? 0 : 1;
}
