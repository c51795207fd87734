/// \file
/// Block attention, forward and backward, against the dense form of the same code in the same run: a visibility that
/// claims the whole context for every row, so that each tile is computed and then masked. 4096 positions of context,
/// 128 blocks of 8, anchors spread evenly: of the dense form's pairs half are visible. One thread.
/// Also says what a call allocates, and the scratch it is lent.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <k3spec/ops/block_attention.hpp>
#include "fastest.hpp"

namespace {
std::atomic<std::size_t> allocated = 0;
bool any_allocated = false;  // in a step that was measured

void* counted(std::size_t bytes, std::size_t alignment) {
  allocated += bytes;
  return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t a) { return counted(bytes, static_cast<std::size_t>(a)); }
void* operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

using namespace k3spec;

constexpr BlockSpan span{1, 4096, 128, 8};

/// Nothing is left out; what a row sees is as before.
struct Dense : BlockVisibility {
  Interval reach(const BlockSpan& s, index_t, index_t) const { return {0, s.context}; }
};

std::vector<float> numbers(index_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 101) / 50 - 1;
  return x;
}

/// Operands, results and gradients of one sequence.
template <index_t Heads, index_t Nope, index_t Rope, index_t V>
struct Layer {
  using Shape = AttentionHeads<Heads, Nope, Rope, V>;
  static constexpr index_t c = span.context_rows(), n = span.noise_rows(), width = Heads * (Nope + V);
  static constexpr index_t qk = Heads * (Nope + Rope);
  std::vector<float> q = numbers(n * qk), o = numbers(n * Heads * V), d_o = o, d_q = q;
  std::vector<LogSumExp<float>> lse = std::vector<LogSumExp<float>>(static_cast<std::size_t>(n * Heads));
  std::vector<float> kv = numbers((c + n) * width), k_rope = numbers((c + n) * Rope), d_kv = kv, d_k_rope = k_rope;
  Arena scratch = Arena(block_attention_scratch<Shape, float>(c, n));

  template <class T>
  static Matrix<T> matrix(std::vector<float>& x, index_t row, index_t rows, index_t columns) {
    return Matrix<T>(x.data() + row * columns, rows, columns);
  }
  template <class T>
  static AttentionKeys<T> keys(std::vector<float>& k, std::vector<float>& rope, index_t row, index_t rows) {
    return {matrix<T>(k, row, rows, width), matrix<T>(rope, row, rows, Rope)};
  }

  template <class Visible>
  void step(const Cpu& cpu, const Visible& visible) {
    using X = const float;
    const BlockProblem<Shape, float, Visible> problem{
        span,    matrix<X>(q, 0, n, qk),         keys<X>(kv, k_rope, 0, c), keys<X>(kv, k_rope, c, n),
        visible, SqrtScale::of<float>(Shape::qk)};
    const AttentionResult<float> result{matrix<float>(o, 0, n, Heads * V),
                                        Matrix<LogSumExp<float>>(lse.data(), n, Heads)};
    block_attention_forward(cpu, problem, result);
    const BlockGradients<float> d{matrix<float>(d_q, 0, n, qk), keys<float>(d_kv, d_k_rope, 0, c),
                                  keys<float>(d_kv, d_k_rope, c, n)};
    block_attention_backward(cpu, problem, result, matrix<X>(d_o, 0, n, Heads * V), d, scratch);
  }
};

template <class Visible, index_t... Dims>
void run(benchmark::State& state) {
  std::vector<index_t> anchors;
  for (index_t a = 0; a < span.blocks; ++a) anchors.push_back((2 * a + 1) * span.context / (2 * span.blocks));
  Visible visible;
  visible.anchors = anchors.data();
  Layer<Dims...> layer;
  layer.step(Cpu{1}, visible);  // products get their buffers
  const std::size_t before = allocated;
  for (auto _ : state) layer.step(Cpu{1}, visible);
  state.counters["bytes allocated"] = static_cast<double>(allocated - before);
  any_allocated = any_allocated || allocated != before;
  state.counters["scratch bytes"] = static_cast<double>(layer.scratch.capacity());
}

template <index_t... Dims>
void add(const std::string& name) {
  const auto one = [&](const char* form, auto function) {
    benchmark::RegisterBenchmark((form + name).c_str(), function)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1)
        ->Repetitions(10);
  };
  one("visible/", run<BlockVisibility, Dims...>);
  one("dense/", run<Dense, Dims...>);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::vector<std::string> names;
  names.push_back("heads:4/nope:16/rope:8/v:16");
  add<4, 16, 8, 16>(names.back());
  names.push_back("heads:4/nope:128/rope:64/v:128");
  add<4, 128, 64, 128>(names.back());
  bench::Fastest found;
  benchmark::RunSpecifiedBenchmarks(&found);
  bool holds = true;
  for (const std::string& name : names) {
    const double visible = found.seconds("visible/" + name), dense = found.seconds("dense/" + name);
    if (visible == 0 || dense == 0) continue;
    fmt::print("{:<44} {:8.1f} ms, dense {:8.1f} ms, ratio {:.2f}\n", name, visible * 1e3, dense * 1e3,
               dense / visible);
    holds = holds && dense >= 1.7 * visible;
  }
  if (!holds) fmt::print(stderr, "bench_block_attention: computing visible tiles alone is not 1.7 times as fast\n");
  return holds && !any_allocated ? 0 : 1;
}
