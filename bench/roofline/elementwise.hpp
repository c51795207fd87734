#pragma once
/// \file
/// Paths of elementwise functions, norms, losses and the optimiser, on operands in memory and in the second-level
/// cache.
/// defines: bench::elementwise_paths

#include <memory>
#include <string>
#include <vector>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/ops/gated_activation.hpp>
#include <k3spec/ops/rms_norm.hpp>
#include <k3spec/optimiser/adamw.hpp>

#include "case.hpp"
#include "operands.hpp"

namespace k3spec::bench {

/// What an element costs, as core/float_math.hpp writes exp and tanh.
struct ElementCosts {
  static constexpr double exp = 24, tanh = 17 + exp, sigmoid = 3 + exp, situ = 6 + 2 * tanh + sigmoid;
  static constexpr double situ_backward = situ + 19, norm = 4, norm_backward = 12, adamw = 18;
  static constexpr double cross_entropy = 3 + exp, cross_entropy_backward = 4 + exp;
};

/// Where a path's operands are cut from, each [rows, width]: what is read from one end, what is written from another.
struct Cut {
  std::shared_ptr<Pool> pool;
  Home home;
  index_t rows, width;

  Cut(std::shared_ptr<Pool> from, Home where, index_t arrays, index_t columns)
      : pool(std::move(from)), home(where), width(columns) {
    const index_t all = where == Home::memory ? Pool::count : (index_t{1} << 20) / 4;
    rows = std::max<index_t>(1, all / arrays / width);
  }
  Matrix<const float> read(index_t i) const { return matrix<const float>(pool->from, rows, width, i * rows * width); }
  Matrix<float> written(index_t i) const { return matrix<float>(pool->to, rows, width, i * rows * width); }

  /// A path that moves `arrays` of these.
  Case path(const std::string& name, double flops, index_t arrays, std::function<void(const Cpu&)> call) const {
    const auto n = static_cast<double>(rows * width);
    return {"Elementwise, norms, losses, optimiser",
            fmt::format("{}, {}", name, home == Home::memory ? "in memory" : "in cache"),
            flops * n,
            4 * n * static_cast<double>(arrays),
            Moves::copies,
            home,
            std::move(call)};
  }
};

inline std::shared_ptr<Arena> scratch_of(std::size_t bytes) { return held<Arena>(bytes); }

inline void add_situ(std::vector<Case>& paths, const std::shared_ptr<Pool>& pool, Home home) {
  using K3 = configs::KimiK3;
  constexpr auto formula = situ_formula(K3::activation_situ_beta, *K3::activation_situ_linear_beta);
  const Cut three(pool, home, 3, K3::moe_intermediate_size), five(pool, home, 5, K3::moe_intermediate_size);
  paths.push_back(three.path("SiTU", ElementCosts::situ, 3, [=](const Cpu& cpu) {
    evaluate(cpu, formula, three.written(0), three.read(0), three.read(1));
  }));
  const auto scratch = scratch_of(differentiate_scratch<decltype(situ_formula(0.0, 0.0)), float>(five.rows));
  paths.push_back(five.path("SiTU's gradients", ElementCosts::situ_backward, 5, [=](const Cpu& cpu) {
    const auto to = gradients(overwrite(five.written(0)), overwrite(five.written(1)));
    differentiate(cpu, formula, five.read(2), to, *scratch, five.read(0), five.read(1));
  }));
}

inline void add_norm(std::vector<Case>& paths, const std::shared_ptr<Pool>& pool, Home home) {
  using K3 = configs::KimiK3;
  constexpr index_t width = K3::hidden_size;
  const Cut two(pool, home, 2, width), three(pool, home, 3, width);
  const auto w = held<Floats>(random_floats(width, {1, 0.1})), d_w = held<Floats>(width);
  paths.push_back(two.path("RMSNorm", ElementCosts::norm, 2, [=](const Cpu& cpu) {
    rms_norm_forward<float>(cpu, Vector<const float>(w->data(), width), K3::rms_norm_eps, two.read(0), two.written(0));
  }));
  const auto scratch = scratch_of(rms_norm_scratch<float>(three.rows));
  paths.push_back(three.path("RMSNorm's gradients with d_w", ElementCosts::norm_backward, 3, [=](const Cpu& cpu) {
    rms_norm_backward<float>(Workspace(cpu, *scratch), Vector<const float>(w->data(), width),
                             Vector<float>(d_w->data(), width), K3::rms_norm_eps, three.read(0), three.read(1),
                             Destination<float>(three.written(0)));
  }));
}

/// The logits' largest, their mass and the label's, row by row; and the logits' gradients.
inline void add_cross_entropy(std::vector<Case>& paths, const std::shared_ptr<Pool>& pool, Home home) {
  const index_t vocabulary = home == Home::memory ? configs::KimiK3::vocab_size : 8192;
  const Cut cut(pool, home, 2, vocabulary);
  const index_t rows = cut.rows;
  const auto sums = held<Floats>(3 * rows);
  const auto labels = held<Buffer<index_t>>(rows);
  fill_ids("labels", vocabulary, labels->data(), rows);
  const auto part = [=](index_t i) { return Vector<float>(sums->data() + i * rows, rows); };
  const auto ids = [=] { return Vector<const index_t>(labels->data(), rows); };
  paths.push_back(cut.path("softmax cross-entropy", ElementCosts::cross_entropy, 1, [=](const Cpu& cpu) {
    evaluate_rows(cpu, row_max_formula(), part(0), cut.read(0));
    evaluate_rows(cpu, log_mass_formula(), part(1), cut.read(0), part(0));
    subtract_label(cpu, cut.read(0), Vector<const float>(part(0)), ids(), part(1));
  }));
  paths.back().moves = Moves::reads;
  const auto scratch = scratch_of(differentiate_scratch<decltype(log_mass_formula()), float>(rows));
  std::fill_n(sums->data() + 2 * rows, rows, 1.0F);
  paths.push_back(
      cut.path("softmax cross-entropy's gradients", ElementCosts::cross_entropy_backward, 2, [=](const Cpu& cpu) {
        const Vector<const float> d_losses(part(2));
        differentiate_rows(cpu, log_mass_formula(), d_losses, gradients(overwrite(cut.written(0)), no_gradient),
                           *scratch, cut.read(0), part(0));
        subtract_label_backward(cpu, ids(), 1.0, d_losses, cut.written(0));
      }));
}

/// A model of one matrix, its gradients and its optimiser.
template <index_t In, index_t Out>
struct Trained {
  using Model = Linear<In, Out>;
  Parameters<Model, float> parameters;
  Gradients<Model, float> gradients;
  AdamW<Model, float> optimiser{AdamWOptions{}, parameters};

  Trained() {
    fill("weights", {0, 0.1}, parameters.trainable().data(), In * Out);
    fill("gradients", {0, 0.1}, gradients.flat().data(), In * Out);
  }
};

/// The gradient is read twice, its norm being known before the first weight moves; two moments and weights are read and
/// written.
template <index_t In, index_t Out>
void add_adamw(std::vector<Case>& paths, Home home) {
  const auto trained = held<Trained<In, Out>>();
  const auto n = static_cast<double>(In * Out);
  paths.push_back({"Elementwise, norms, losses, optimiser",
                   fmt::format("AdamW's step, {}", home == Home::memory ? "in memory" : "in cache"),
                   ElementCosts::adamw * n, 8 * 4 * n, Moves::copies, home, [=](const Cpu& cpu) {
                     trained->optimiser.step(cpu, 1e-6, trained->parameters, trained->gradients);
                   }});
}

inline std::vector<Case> elementwise_paths(const std::shared_ptr<Pool>& pool) {
  std::vector<Case> paths;
  for (const Home home : {Home::memory, Home::cache}) {
    add_situ(paths, pool, home);
    add_norm(paths, pool, home);
    add_cross_entropy(paths, pool, home);
    if (home == Home::memory) add_adamw<4096, 8192>(paths, home);
    if (home == Home::cache) add_adamw<256, 256>(paths, home);
  }
  return paths;
}

}  // namespace k3spec::bench
