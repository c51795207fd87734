#pragma once
/// \file
/// What memory limits, as a share of a copy. Bytes are those of each operand and result once: of a kernel that reads
/// an operand twice at full speed the share is less than 1.
/// defines: bench::copies, activations, norms, embeddings, optimizer

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <bench/cuda/setting.hpp>

namespace k3spec::bench {

template <class... T>
double bytes(index_t elements) {
  return static_cast<double>(elements) * static_cast<double>((sizeof(T) + ...));
}

/// The yardstick of all else: the faster one of a copy by the driver and one by a formula.
inline void copies(Setting& s) {
  auto from = numbers<float>(s.cuda, s.sizes.copied, 1);
  CudaBuffer<float> to(s.cuda, s.sizes.copied);
  const double moved = bytes<float, float>(from.size());
  const double driver = s.watch.seconds(
      [&] { cuda::copy(s.cuda, bare(from.data()), bare(to.data()), from.size(), cudaMemcpyDeviceToDevice); });
  const double formula = s.watch.seconds([&] { evaluate(s.cuda, expr::arg<0>, vector(to), vector(from)); });
  s.copy_rate = moved / std::min(driver, formula);
  const auto print = [&](const char* what, double seconds) {
    const double rate = moved / seconds;
    Setting::print(what, "float", fmt::format("{}", from.size()), seconds, Setting::in_gigabytes(rate),
                   Setting::in_gigabytes(s.copy_rate), rate / s.copy_rate);
  };
  print("copy, cudaMemcpyAsync", driver);
  print("copy, evaluate(arg<0>)", formula);
}

/// SiTU of an MLP: gate, up -> product, and d_product -> d_gate, d_up.
template <class T>
void activations(Setting& s, index_t rows) {
  using S = accumulate_t<T>;
  constexpr auto formula = SiTU<configs::KimiK3>::formula();
  const index_t n = rows * s.sizes.inner;
  auto gate = numbers<T>(s.cuda, n, 1), up = numbers<T>(s.cuda, n, 2);
  auto d_product = numbers<S>(s.cuda, n, 3);
  CudaBuffer<T> product(s.cuda, n);
  CudaBuffer<S> d_gate(s.cuda, n), d_up(s.cuda, n);
  CudaArena scratch(s.cuda, differentiate_scratch<std::remove_const_t<decltype(formula)>, S>(rows));
  const auto view = [&](auto& x) { return matrix(x, s.sizes.inner); };
  const std::string where = shape(rows, s.sizes.inner);
  s.moves("SiTU forward", type_name<T>, where, bytes<T, T, T>(n),
          [&] { evaluate(s.cuda, formula, view(product), view(gate), view(up)); });
  s.moves("SiTU backward", type_name<T>, where, bytes<T, T, S, S, S>(n), [&] {
    differentiate(s.cuda, formula, view(d_product), gradients(overwrite(view(d_gate)), overwrite(view(d_up))), scratch,
                  view(gate), view(up));
  });
}

template <class T>
void norms(Setting& s, index_t rows) {
  using S = accumulate_t<T>;
  const double eps = configs::KimiK3::rms_norm_eps;
  const index_t columns = s.sizes.hidden, n = rows * columns;
  auto x = numbers<T>(s.cuda, n, 1), w = numbers<T>(s.cuda, columns, 2);
  auto d_y = numbers<S>(s.cuda, n, 3);
  CudaBuffer<T> y(s.cuda, n);
  CudaBuffer<S> d_x(s.cuda, n), d_w(s.cuda, columns);
  CudaArena scratch(s.cuda, rms_norm_scratch<T>(rows));
  const auto view = [&](auto& m) { return matrix(m, columns); };
  const std::string where = shape(rows, columns);
  s.moves("RMSNorm forward", type_name<T>, where, bytes<T, T>(n) + bytes<T>(columns),
          [&] { rms_norm_forward<element_t<Cuda, T>>(s.cuda, vector(w), eps, view(x), view(y)); });
  s.moves("RMSNorm backward", type_name<T>, where, bytes<T, S, S>(n) + bytes<T, S, S>(columns), [&] {
    rms_norm_backward<element_t<Cuda, T>>(Workspace(s.cuda, scratch), vector(w), vector(d_w), eps, view(x), view(d_y),
                                          view(d_x));
  });
}

inline CudaBuffer<index_t> draw_ids(Setting& s, index_t rows) {
  std::vector<index_t> ids;
  const Philox random(1);
  for (index_t r = 0; r < rows; ++r) {
    ids.push_back(static_cast<index_t>(
        random.below(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(s.sizes.vocabulary))));
  }
  CudaBuffer<index_t> on_card(s.cuda, rows);
  upload<index_t>(s.cuda, Vector<const index_t>(ids.data(), rows), vector(on_card));
  return on_card;
}

/// Tokens drawn from the whole vocabulary.
inline void embeddings(Setting& s, index_t rows) {
  const index_t columns = s.sizes.hidden, n = rows * columns;
  auto ids = draw_ids(s, rows);
  auto table = numbers<bfloat16>(s.cuda, s.sizes.vocabulary * columns, 1);
  auto d_y = numbers<float>(s.cuda, n, 2);
  CudaBuffer<bfloat16> y(s.cuda, n);
  CudaBuffer<float> d_table(s.cuda, table.size());
  const std::string where = shape(rows, columns);
  s.moves("embedding forward", "bf16", where, bytes<bfloat16, bfloat16>(n) + bytes<index_t>(rows), [&] {
    embedding_forward<element_t<Cuda, bfloat16>>(s.cuda, vector(ids), matrix(table, columns), matrix(y, columns));
  });
  s.moves("embedding backward", "float", where, bytes<float, float, float>(n) + bytes<index_t>(rows), [&] {
    embedding_backward<element_t<Cuda, float>>(s.cuda, vector(ids), std::nullopt, matrix(d_y, columns),
                                               matrix(d_table, columns));
  });
}

/// AdamW with float masters of bf16 weights, and the norm it begins with. Both wait for the host, which adds up the
/// last sums: their times hold its part.
template <class Model>
void optimizer(Setting& s) {
  constexpr index_t n = trainable_slots<Model>;
  const std::string where = fmt::format("{}", n);
  Parameters<Model, bfloat16, Cuda> parameters(s.cuda);
  Gradients<Model, bfloat16, Cuda> gradients(s.cuda);
  const Vector<element_t<Cuda, float>> g = gradients.flat();
  cuda::launch(s.cuda, {dim3(cuda::blocks_for(s.cuda, n, 256)), dim3(256)}, fill<float>, bare(g.data()), n, 1);
  GradientNorm<Cuda> norm(s.cuda, n);
  CudaBuffer<double> sums(s.cuda, expr::square_blocks(n));
  s.moves("sums of squares", "float", where, bytes<float>(n),
          [&] { sums_of_squares<element_t<Cuda, float>>(s.cuda, g, vector(sums)); });
  s.moves("gradient norm", "float", where, bytes<float>(n), [&] { norm(s.cuda, g); });
  AdamW<Model, bfloat16, Cuda> adamw(s.cuda, AdamWOptions{}, parameters);
  // Gradient; m, v and masters read and written; weights written.
  s.moves("AdamW step with norm", "bf16, float masters", where, 7 * bytes<float>(n) + bytes<bfloat16>(n),
          [&] { adamw.step(s.cuda, 1e-4, parameters, gradients); });
}

}  // namespace k3spec::bench
