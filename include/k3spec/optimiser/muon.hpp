#pragma once
/// \file
/// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; torch.optim.Muon) for a
/// model's matrices, AdamW for the rest. Of a matrix W [A, B] with gradient g, clipped as AdamW clips it:
/// ```text
/// M ← μ M + (1 - μ) g                       U = μ M + (1 - μ) g                  (Nesterov)
/// X = U / (‖U‖ + 1e-7), five times: X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X           (Newton-Schulz)
/// W ← (1 - lr·decay) W - lr·scale X
/// ```
/// with a, b, c = 3.4445, -4.775, 2.0315, which take singular values from above 0 to between 0.7 and 1.2. All of it is
/// in the type that gradients add up in, float at least (torch rounds X to bfloat16). M is AdamW's first moment, whose
/// second moments of these matrices stay 0. Embeddings, heads and Markov tables, whose rows are outputs or tokens, are
/// AdamW's.
/// defines: OptimizerKind, MuonScale, MuonOptions, is_for_muon, Muon

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/ops/sum_of_squares.hpp>
#include <k3spec/optimiser/adamw.hpp>

namespace K3SPEC_NAMESPACE {

/// What moves a model's matrices: AdamW as all else, or Muon.
enum class OptimizerKind { adamw, muon };
template <>
inline constexpr std::array<std::string_view, 2> names_of<OptimizerKind>{"adamw", "muon"};

/// What a step of length lr is multiplied with. match_rms_adamw: 0.2 √max(A, B), so that an element moves as AdamW's
/// does and its rate is a good one (Liu et al., "Muon is scalable for LLM training", 2025). original: √max(1, A / B).
enum class MuonScale { match_rms_adamw, original };
template <>
inline constexpr std::array<std::string_view, 2> names_of<MuonScale>{"match_rms_adamw", "original"};

/// Muon's numbers; the others are AdamW's.
struct MuonOptions {
  double momentum = 0.95;
  MuonScale scale = MuonScale::match_rms_adamw;

  /// Calls v(name, option, range), and v(name, option) for the name.
  template <class Options, class V>
  static void visit(Options& o, V&& v) {
    v("muon_momentum", o.momentum, AdamWOptions::beta_range);
    v("muon_scale", o.scale);
  }

  /// Of a matrix of so many rows and columns.
  double scale_of(index_t rows, index_t columns) const {
    const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
    return scale == MuonScale::original ? std::sqrt(std::max(1.0, a / b)) : 0.2 * std::sqrt(std::max(a, b));
  }

  /// Refuses numbers out of range.
  /// \throws Error naming the option
  void check() const { visit(*this, CheckRange{"Muon: "}); }
};

/// Whether a trained matrix of this name is Muon's, not AdamW's.
inline bool is_for_muon(std::string_view name) {
  for (const std::string_view other : {"embed_tokens", "lm_head", "confidence_head", "markov_w"}) {
    if (name.find(other) != std::string_view::npos) return false;
  }
  return true;
}

/// A step with Muon. It holds what a step needs beside an AdamW, where all that must be kept is.
template <class Model, Element T, Device D = Cpu>
class Muon {
  using S = accumulate_t<T>;
  using E = element_t<D, S>;

 public:
  using Rest = AdamW<Model, T, D>;

  /// Memory for the largest matrix and three squares.
  /// \param frozen  where the tensors are that stay as they are, as the AdamW has them
  /// \throws Error on an option out of range
  Muon(const D& device, const MuonOptions& options, const std::vector<SlotRange>& frozen = {})
      : options_(options),
        parts_(parts(frozen)),
        next_(device, sizes(parts_).next),
        squares_(device, sizes(parts_).squares),
        mirror_(device, bytes_of_sums()),
        sums_(mirror_.template take<double>(blocks())) {
    options_.check();
  }

  /// One update of the parameters, AdamW's `rest` counting it. The gradients are overwritten.
  /// \throws Error as AdamW::step does
  typename Rest::Report step(const D& device, double lr, Rest& rest, Parameters<Model, T, D>& parameters,
                             Gradients<Model, T, D>& gradients) {
    const auto report = rest.begin(device, gradients);
    if (report.skipped) return report;
    const Vector<E> g = gradients.flat();
    add_momentum(device, clip_coefficient(report.grad_norm, rest.options().max_grad_norm), rest, g);
    index_t done = 0;
    for (const Part& part : parts_) {
      rest.update(device, lr, report.grad_norm, parameters, gradients, done, part.begin);
      orthogonalize(device, part, g);
      done = part.begin + detail::slot(part.size());
      move(device, lr, part, rest, parameters);
    }
    rest.update(device, lr, report.grad_norm, parameters, gradients, done, g.size());
    return report;
  }

  const MuonOptions& options() const { return options_; }

  /// Bytes of what a step needs beside AdamW's, at most.
  static std::size_t bytes() {
    const Sizes s = sizes(parts({}));
    return static_cast<std::size_t>(s.next + s.squares) * sizeof(S);
  }

 private:
  /// A matrix that Muon moves: where it begins among the trained parameters, and its shape.
  struct Part {
    index_t begin, rows, columns;

    index_t size() const { return rows * columns; }
    index_t side() const { return std::min(rows, columns); }
    index_t blocks() const { return expr::square_blocks(size()); }
    template <class U>
    Matrix<U> of(U* all) const {
      return Matrix<U>(all + begin, rows, columns);
    }
  };

  static std::vector<Part> parts(const std::vector<SlotRange>& frozen) {
    std::vector<Part> all;
    index_t begin = 0;
    typename Model::template Weights<S> shapes{};
    Model::visit(shapes, Path{}, [&](const Path& at, const auto& view, auto init) {
      if constexpr (!detail::is_frozen<decltype(init)>) {
        if constexpr (std::remove_cvref_t<decltype(view)>::rank == 2) {
          const auto is_here = [&](const SlotRange& range) { return range.first == begin; };
          const bool moves = std::none_of(frozen.begin(), frozen.end(), is_here);
          if (moves && is_for_muon(at.str())) all.push_back({begin, view.extent(0), view.extent(1)});
        }
        begin += detail::slot(view.size());
      }
    });
    return all;
  }
  /// Elements for the largest matrix, and for three squares of the largest shorter side.
  struct Sizes {
    index_t next = 0, squares = 0;
  };
  static Sizes sizes(const std::vector<Part>& parts) {
    Sizes s;
    for (const Part& p : parts) {
      s.next = std::max(s.next, p.size()), s.squares = std::max(s.squares, 3 * p.side() * p.side());
    }
    return s;
  }
  index_t blocks() const {
    index_t all = 0;
    for (const Part& part : parts_) all += part.blocks();
    return all;
  }

  std::size_t bytes_of_sums() const {
    MirrorPlan<D> plan;
    plan.template take<double>(blocks());
    return plan.bytes();
  }

  /// M and U of all matrices, U in place of g, divided by its norm.
  void add_momentum(const D& device, double clip, Rest& rest, const Vector<E>& g) {
    const double mu = options_.momentum;
    const auto m = mu * expr::arg<0> + (1 - mu) * (clip * expr::arg<1>);
    const auto u = mu * m + (1 - mu) * (clip * expr::arg<1>);
    index_t at = 0;
    for (const Part& part : parts_) {
      const Matrix<E> moment = part.of(rest.first_moments_data()), gradient = part.of(g.data());
      evaluate(device, formulas(m, u), outputs(moment, gradient), moment, gradient);
      sums_of_squares<E>(device, Vector<const E>(gradient.data(), part.size()), sums_at(at, part.blocks()));
      at += part.blocks();
    }
    mirror_.download(device);
    at = 0;
    for (const Part& part : parts_) {
      double sum = 0;
      for (index_t i = 0; i < part.blocks(); ++i) sum += sums_.host(at + i);
      at += part.blocks();
      const Matrix<E> x = part.of(g.data());
      evaluate(device, 1 / (std::sqrt(sum) + eps) * expr::arg<0>, x, x);
    }
  }
  Vector<element_t<D, double>> sums_at(index_t begin, index_t n) { return sums_.device.rows(begin, n); }

  /// Newton-Schulz of the matrix in g. The result is in `next_`, as the number of steps is odd.
  void orthogonalize(const D& device, const Part& part, const Vector<E>& g) {
    static_assert(steps % 2 == 1);
    const index_t n = part.side();
    const auto square = [&](index_t i) { return Matrix<E>(squares_.data() + i * n * n, n, n); };
    const Matrix<E> gram = square(0), scaled = square(1), sum = square(2);
    Matrix<E> x = part.of(g.data()), to(next_.data(), part.rows, part.columns);
    const bool wide = part.rows <= part.columns;
    for (int i = 0; i < steps; ++i, std::swap(x, to)) {
      if (wide) {
        gemm<Op::plain, Op::transposed>(device, x, x, gram);
      } else {
        gemm<Op::transposed, Op::plain>(device, x, x, gram);
      }
      evaluate(device, formulas(b * expr::arg<0>, c * expr::arg<0>), outputs(sum, scaled), gram);
      gemm<Op::plain, Op::plain>(device, scaled, gram, sum, Into::accumulate);
      evaluate(device, a * expr::arg<0>, to, x);
      if (wide) {
        gemm<Op::plain, Op::plain>(device, sum, x, to, Into::accumulate);
      } else {
        gemm<Op::plain, Op::plain>(device, x, sum, to, Into::accumulate);
      }
    }
  }

  void move(const D& device, double lr, const Part& part, Rest& rest, Parameters<Model, T, D>& parameters) {
    const double kept = 1 - lr * rest.options().weight_decay, rate = lr * options_.scale_of(part.rows, part.columns);
    const auto moved = kept * expr::arg<0> - rate * expr::arg<1>;
    const Matrix<E> x(next_.data(), part.rows, part.columns);
    const auto stored = part.of(parameters.trainable().data());
    if constexpr (Rest::has_masters) {
      const Matrix<E> w = part.of(rest.masters_data());
      evaluate(device, formulas(moved, moved), outputs(w, stored), w, x);
    } else {
      evaluate(device, moved, stored, stored, x);
    }
  }

  static constexpr int steps = 5;
  static constexpr double a = 3.4445, b = -4.775, c = 2.0315, eps = 1e-7;

  MuonOptions options_;
  std::vector<Part> parts_;
  buffer_t<D, S> next_, squares_;
  Mirror<D> mirror_;
  Mirrored<D, double> sums_;
};

}  // namespace K3SPEC_NAMESPACE
