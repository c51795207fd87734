/// \file
/// The matrix product against OpenBLAS in the same run: the products of one training step on k3-tiny (1536 rows) and
/// larger ones, on 1 and 2 threads. Compare like with like: OPENBLAS_CORETYPE=Haswell for a build with AVX2 (the
/// default), SkylakeX for one with AVX-512. OPENBLAS_THREAD_TIMEOUT=4 and OMP_WAIT_POLICY=passive keep the idle threads
/// of one library from slowing down the other.

#include <benchmark/benchmark.h>
#include <cblas.h>
#include <fmt/core.h>

#include <array>
#include <string>
#include <vector>

#include <k3spec/backend/cpu/gemm.hpp>

#include "fastest.hpp"

namespace {

using namespace k3spec;

/// C [m,n] = op(A) · op(B), named by its role for a layer y = x Wᵀ.
struct Task {
  std::string role;
  index_t m, n, k;
  Op op_a, op_b;
  bool of_training_step;
  int threads;

  std::string name() const { return fmt::format("{}/{}x{}x{}/threads:{}", role, m, n, k, threads); }
  double operations() const { return 2.0 * static_cast<double>(m * n * k); }
};

std::vector<float> numbers(index_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 101) / 50 - 1;
  return x;
}

struct Operands {
  std::vector<float> a, b, c;
  index_t a_columns, b_columns;

  explicit Operands(const Task& t)
      : a(numbers(t.m * t.k)),
        b(numbers(t.k * t.n)),
        c(static_cast<std::size_t>(t.m * t.n)),
        a_columns(t.op_a == Op::plain ? t.k : t.m),
        b_columns(t.op_b == Op::plain ? t.n : t.k) {}
};

void run_ours(benchmark::State& state, const Task& t) {
  Operands o(t);
  const Matrix<const float> a(o.a.data(), t.m * t.k / o.a_columns, o.a_columns);
  const Matrix<const float> b(o.b.data(), t.k * t.n / o.b_columns, o.b_columns);
  const Matrix<float> c(o.c.data(), t.m, t.n);
  for (auto _ : state) gemm(Cpu{t.threads}, a, t.op_a, b, t.op_b, c);
}

void run_openblas(benchmark::State& state, const Task& t) {
  Operands o(t);
  openblas_set_num_threads(t.threads);
  const auto op = [](Op x) { return x == Op::plain ? CblasNoTrans : CblasTrans; };
  const auto size = [](index_t x) { return static_cast<blasint>(x); };
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, op(t.op_a), op(t.op_b), size(t.m), size(t.n), size(t.k), 1.0f, o.a.data(),
                size(o.a_columns), o.b.data(), size(o.b_columns), 0.0f, o.c.data(), size(t.n));
  }
}

std::vector<Task> tasks(int threads) {
  constexpr index_t rows = 1536;  // positions of one training step
  constexpr std::array<std::array<index_t, 2>, 10> weights{
      {{48, 256}, {96, 48}, {40, 256}, {128, 32}, {64, 256}, {128, 64}, {256, 128}, {128, 256}, {128, 384}, {64, 128}}};
  std::vector<Task> all;
  for (const auto& [n, k] : weights) {
    all.push_back({"y=xWt", rows, n, k, Op::plain, Op::transposed, true, threads});
    all.push_back({"dx=dyW", rows, k, n, Op::plain, Op::plain, true, threads});
    all.push_back({"dW=dytx", n, k, rows, Op::transposed, Op::plain, true, threads});
  }
  for (const auto& [m, n, k] : std::initializer_list<std::array<index_t, 3>>{
           {512, 512, 512}, {1024, 1024, 1024}, {32, 4096, 4096}, {1, 1024, 1024}, {6, 1024, 1024}}) {
    all.push_back({"y=xWt", m, n, k, Op::plain, Op::transposed, false, threads});
  }
  return all;
}

void add(const Task& task) {
  for (bool ours : {true, false}) {
    const auto run = ours ? run_ours : run_openblas;
    const std::string name = (ours ? "k3spec/" : "openblas/") + task.name();
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, task); })
        ->UseRealTime()
        ->MinTime(0.002)
        ->Repetitions(20);
  }
}

/// One line per task, and the sums over the training step.
void compare(const bench::Fastest& found, const std::vector<Task>& all) {
  double ours_in_step = 0, theirs_in_step = 0;
  for (const Task& task : all) {
    const double ours = found.seconds("k3spec/" + task.name()), theirs = found.seconds("openblas/" + task.name());
    if (ours == 0 || theirs == 0) continue;
    const double work = task.operations() * 1e-9;
    fmt::print("{:<34} {:8.1f} GFLOP/s, OpenBLAS {:8.1f}, ratio {:.2f}\n", task.name(), work / ours, work / theirs,
               theirs / ours);
    if (!task.of_training_step) continue;
    ours_in_step += ours;
    theirs_in_step += theirs;
  }
  if (ours_in_step == 0) return;
  fmt::print("training step: {:.2f} ms, OpenBLAS {:.2f} ms, ratio {:.3f}\n\n", ours_in_step * 1e3, theirs_in_step * 1e3,
             theirs_in_step / ours_in_step);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  fmt::print("k3spec: packets of {} floats. OpenBLAS: kernels for {}.\n", Packet<float>::width,
             openblas_get_corename());
  std::vector<std::vector<Task>> runs;
  for (int threads : {1, 2}) {
    runs.push_back(tasks(threads));
    for (const Task& task : runs.back()) add(task);
  }
  bench::Fastest found(bench::Clock::wall);
  benchmark::RunSpecifiedBenchmarks(&found);
  for (const auto& run : runs) compare(found, run);
}
