#pragma once
/// \file
/// Paths of matrix products: those of a training step, of prepacked weights for few rows, and OpenBLAS's beside them.
/// defines: bench::has_openblas, bench::openblas_name, bench::product_paths, bench::prepacked_paths,
///          bench::openblas_paths

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if __has_include(<cblas.h>)
#include <cblas.h>
#define K3SPEC_BENCH_OPENBLAS
#endif

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/config/kimi_k3.hpp>

#include "case.hpp"
#include "operands.hpp"

namespace k3spec::bench {

/// C [m,n] = op(A) · op(B)
struct ProductSize {
  index_t m, n, k;
  Op op_a, op_b;

  double flops() const { return 2.0 * static_cast<double>(m * n * k); }
  double elements() const { return static_cast<double>(m * k + k * n + m * n); }
};

/// The three products of layers y = x Wᵀ in a training step.
enum class Role { output, input_gradient, weight_gradient };
inline constexpr std::array<const char*, 3> role_names{"y = x Wᵀ", "dX = dY W", "dW = dYᵀ X"};

inline ProductSize size_of(Role role, index_t rows, index_t out, index_t in) {
  if (role == Role::output) return {rows, out, in, Op::plain, Op::transposed};
  if (role == Role::input_gradient) return {rows, in, out, Op::plain, Op::plain};
  return {out, in, rows, Op::transposed, Op::plain};
}

template <class T>
struct ProductOperands {
  ProductSize size;
  Buffer<T> a, b, c;

  explicit ProductOperands(const ProductSize& s) : size(s), a(s.m * s.k), b(s.k * s.n), c(s.m * s.n) {
    const Floats x = random_floats(std::max(a.size(), b.size()));
    std::transform(x.begin(), x.begin() + a.size(), a.begin(), [](float v) { return T(v); });
    std::transform(x.begin(), x.begin() + b.size(), b.begin(), [](float v) { return T(v); });
  }
  static index_t rows(Op op, index_t rows, index_t columns) { return op == Op::plain ? rows : columns; }
  Matrix<const T> left() {
    const index_t n = rows(size.op_a, size.m, size.k);
    return matrix<const T>(a, n, a.size() / n);
  }
  Matrix<const T> right() {
    const index_t n = rows(size.op_b, size.k, size.n);
    return matrix<const T>(b, n, b.size() / n);
  }
  void multiply(const Cpu& cpu) { gemm(cpu, left(), size.op_a, right(), size.op_b, matrix<T>(c, size.m, size.n)); }
};

#if defined(K3SPEC_BENCH_OPENBLAS)
inline constexpr bool has_openblas = true;
inline std::string openblas_name() { return openblas_get_corename(); }
inline void multiply_openblas(const Cpu& cpu, ProductOperands<float>& o) {
  openblas_set_num_threads(cpu.threads);
  const auto op = [](Op x) { return x == Op::plain ? CblasNoTrans : CblasTrans; };
  const auto size = [](index_t x) { return static_cast<blasint>(x); };
  const auto [m, n, k, op_a, op_b] = o.size;
  cblas_sgemm(CblasRowMajor, op(op_a), op(op_b), size(m), size(n), size(k), 1.0F, o.a.data(), size(o.left().extent(1)),
              o.b.data(), size(o.right().extent(1)), 0.0F, o.c.data(), size(n));
}
#else
inline constexpr bool has_openblas = false;
inline std::string openblas_name() { return "none"; }
inline void multiply_openblas(const Cpu&, ProductOperands<float>&) {}
#endif

/// Layers of one kind, whose products are timed together.
struct Layers {
  std::string name;
  index_t rows;
  std::vector<std::array<index_t, 2>> weights;  ///< outputs, inputs
};

inline std::vector<Layers> training_layers() {
  using K3 = configs::KimiK3;
  using Small = configs::KimiK3Small;
  return {{"k3-tiny, 1536 rows",
           1536,
           {{48, 256},
            {96, 48},
            {40, 256},
            {128, 32},
            {64, 256},
            {128, 64},
            {256, 128},
            {128, 256},
            {128, 384},
            {64, 128}}},
          {"MLP of hidden 512, 1024 rows", 1024, {{Small::intermediate_size, Small::hidden_size}}},
          {"head of hidden 512, 1024 rows", 1024, {{8192, Small::hidden_size}}},
          {"2048 outputs of K3, 256 rows", 256, {{2048, K3::hidden_size}}}};
}

template <class T, class Multiply>
Case product_path(const std::string& group, const std::string& name, const Layers& layers, Role role,
                  Multiply multiply) {
  Case path{group, fmt::format("{}{}, {}", name, role_names[static_cast<std::size_t>(role)], layers.name)};
  auto all = held<std::vector<ProductOperands<T>>>();
  for (const auto& [out, in] : layers.weights) {
    const ProductSize size = size_of(role, layers.rows, out, in);
    all->emplace_back(size);
    path.flops += size.flops();
    path.bytes += size.elements() * sizeof(T);
  }
  path.call = [=](const Cpu& cpu) {
    for (auto& operands : *all) multiply(cpu, operands);
  };
  // The tiny ones fit; of the others' roof, the peak, it makes no difference.
  path.home = layers.weights.size() > 1 ? Home::cache : Home::memory;
  return path;
}

inline constexpr std::array<Role, 3> all_roles{Role::output, Role::input_gradient, Role::weight_gradient};

inline std::vector<Case> product_paths() {
  std::vector<Case> paths;
  const auto ours = [](const Cpu& cpu, auto& operands) { operands.multiply(cpu); };
  for (const Layers& layers : training_layers()) {
    for (const Role role : all_roles) paths.push_back(product_path<float>("Products", "", layers, role, ours));
  }
  paths.push_back(product_path<bfloat16>("Products", "bfloat16 ", training_layers().back(), Role::output, ours));
  return paths;
}

/// The same products by OpenBLAS, each named as ours is.
inline std::vector<Case> openblas_paths() {
  std::vector<Case> paths;
  if (!has_openblas) return paths;
  for (const Layers& layers : training_layers()) {
    for (const Role role : all_roles) {
      paths.push_back(product_path<float>("OpenBLAS", "", layers, role, multiply_openblas));
      paths.back().is_drawn = false;
    }
  }
  return paths;
}

/// A number that the format has, from any.
inline float in_format(WeightFormat format, float x) {
  if (format == WeightFormat::full) return x;
  if (format == WeightFormat::bfloat16) return static_cast<float>(bfloat16(x));
  return mxfp4_value(static_cast<unsigned>((x + 1) * 8) & 15U) * 0x1p-8F;
}

/// Weights [n, k] that are kept in `format`.
inline PrepackedWeights<float> weights_in(WeightFormat format, index_t n, index_t k) {
  Floats w(n * k);
  const index_t period = std::min(w.size(), hash_period);
  fill("weights", {0, 1}, w.data(), period);
  for (index_t i = 0; i < period; ++i) w[i] = in_format(format, w[i]);
  for (index_t i = period; i < w.size(); i += period) {
    std::copy_n(w.data(), std::min(period, w.size() - i), w.data() + i);
  }
  PrepackedWeights<float> packed(matrix<const float>(w, n, k));
  if (packed.format() != format) throw std::logic_error("prepacked weights are kept in another format");
  return packed;
}

/// Names of formats, narrower ones last.
inline constexpr std::array<WeightFormat, 3> formats{WeightFormat::full, WeightFormat::bfloat16, WeightFormat::mxfp4};
inline constexpr std::array<const char*, 3> format_names{"float", "bfloat16", "MXFP4"};
inline constexpr std::array<index_t, 3> few_rows{1, 6, 16};

/// `count` weights [n, k] one after the other, so that they are more than the caches of a core hold.
inline void add_prepacked(std::vector<Case>& paths, const std::string& what, index_t count, index_t n, index_t k) {
  const auto x = held<Floats>(random_floats(few_rows.back() * k));
  const auto y = held<Floats>(few_rows.back() * n);
  for (std::size_t f = 0; f < formats.size(); ++f) {
    const auto all = held<std::vector<PrepackedWeights<float>>>();
    for (index_t i = 0; i < count; ++i) all->push_back(weights_in(formats[f], n, k));
    for (const index_t rows : few_rows) {
      Case path{"Prepacked weights",
                fmt::format("{}, {}, {} row{}", what, format_names[f], rows, rows == 1 ? "" : "s")};
      path.flops = 2.0 * static_cast<double>(count * n * k * rows);
      path.bytes = static_cast<double>(count * ((*all)[0].bytes() + rows * (n + k) * 4));
      path.moves = Moves::reads;
      path.call = [=](const Cpu& cpu) {
        for (const auto& w : *all) gemm(cpu, matrix<const float>(*x, rows, k), w, matrix<float>(*y, rows, n));
      };
      paths.push_back(std::move(path));
    }
  }
}

inline constexpr const char *expert_name = "4 experts of K3", *head_name = "8192 of K3's head";

inline std::vector<Case> prepacked_paths() {
  using K3 = configs::KimiK3;
  std::vector<Case> paths;
  add_prepacked(paths, expert_name, 4, K3::moe_intermediate_size, K3::routed_expert_hidden_size);
  add_prepacked(paths, head_name, 1, 8192, K3::hidden_size);
  return paths;
}

}  // namespace k3spec::bench
