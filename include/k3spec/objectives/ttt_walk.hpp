#pragma once
/// \file
/// The walk of the EAGLE-3 objective over the vocabulary, in chunks of teacher rows: row r supervises step k at row
/// r - k, so the target's probabilities of a chunk are made once and serve all steps.
/// defines: TttUnrolled, TttChunk, TttMakes, TttWalk

#include <algorithm>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/objectives/ttt_rows.hpp>
#include <k3spec/objectives/ttt_totals.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/row_adjoints.hpp>

namespace K3SPEC_NAMESPACE {

/// What the device keeps of a batch whose draft has run. \tparam T  of activations, where they are
template <class Draft, Element T>
struct TttUnrolled {
  typename Draft::template Activations<T> acts;
  PerStep<Rows<accumulate_t<T>, Draft::hidden>> d_out;  ///< the gradient of what each step's head reads

  template <Allocator A>
  static constexpr TttUnrolled allocate(A& a, index_t rows, index_t steps) {
    TttUnrolled u{Draft::template Activations<T>::allocate(a, rows, steps), {}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) take_rows(a, rows, u.d_out[k]);
    return u;
  }
};

/// The working memory of one chunk of n teacher rows.
template <class Draft, Element T>
struct TttChunk {
  using S = accumulate_t<T>;
  Rows<S, Draft::draft_vocabulary> p, logits, d_logits;
  Rows<T, Draft::hidden> x;
  Vector<S> d_loss;

  template <Allocator A>
  static constexpr TttChunk allocate(A& a, index_t n) {
    TttChunk c;
    take_rows(a, n, c.p), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits), take_rows(a, n, c.x);
    take_rows(a, n, c.d_loss);
    return c;
  }
};

/// What a walk makes.
struct TttMakes {
  bool alphas, losses, gradients;  ///< losses: what draft and teacher choose, too; gradients: d_out
  TttTotals totals;                ///< of d_out
};

/// One walk over the vocabulary.
template <class Draft, Element T, Device D, class Teacher>
struct TttWalk {
  using S = accumulate_t<T>;
  using Chunk = TttChunk<Draft, T>;
  const D& device;
  const typename Draft::template Weights<const T>& w;
  const typename Draft::template Weights<S>* d_w;  ///< looked at where gradients are made
  const Teacher& teacher;
  const TttLoss& loss;
  const TttRows<value_t<S>, D>& rows;
  const TttUnrolled<Draft, T>& unrolled;
  arena_t<D>& arena;
  TttMakes makes;

  /// Bytes of the arena that a walk takes. \param n  teacher rows at a time
  static constexpr std::size_t bytes(index_t n) {
    return plan_bytes([&](ArenaPlan& a) {
      Chunk::allocate(a, n);
      a.borrow(std::max(Draft::template head_scratch_bytes<T>(n), TttLoss::scratch_bytes<value_t<S>>(n)));
    });
  }

  /// Its part of every prediction that teacher rows [first, first + n) supervise.
  void run(index_t first, index_t n) const {
    Scope scope(arena);
    const Chunk c = Chunk::allocate(arena, n);
    teacher.selected_logits(device, first, c.p.matrix());
    evaluate(device, softmax_formula(), c.p, c.p);
    if (makes.losses) argmax(device, c.p, rows.outputs().teacher_top.device.rows(first, n));
    for (index_t k = 0; k < rows.steps(); ++k) {
      const index_t skip = std::max<index_t>(0, k - first);
      if (skip < n) predict(c, {k, first + skip - k, skip, n - skip});
    }
  }

 private:
  /// Predictions of step k at rows [row, row + n), supervised by chunk rows [offset, offset + n).
  struct Part {
    index_t k, row, offset, n;
    template <class V>
    auto of(const PerStep<V>& mirrored) const {
      return mirrored[static_cast<std::size_t>(k)].device.rows(row, n);
    }
  };

  void predict(const Chunk& c, const Part& part) const {
    const auto x = c.x.rows(0, part.n);
    const auto p = c.p.rows(part.offset, part.n), logits = c.logits.rows(0, part.n);
    Draft::head_input(device, w, out(part), x);
    Draft::compute_logits(device, w, x, logits);
    const auto& to = rows.outputs();
    if (makes.alphas) TttLoss::row_alphas(device, logits, p, part.of(to.alphas));
    if (makes.losses) argmax(device, logits, part.of(to.drafted));
    if (makes.losses && loss.lk != LkLoss::alpha) TttLoss::row_losses(device, logits, p, part.of(to.losses));
    if (makes.gradients) backward(c, part);
  }

  /// d_out of some predictions, from their logits. Where one does not count it stays 0.
  void backward(const Chunk& c, const Part& part) const {
    const auto step = static_cast<std::size_t>(part.k);
    const auto p = c.p.rows(part.offset, part.n), logits = c.logits.rows(0, part.n);
    const auto d_logits = c.d_logits.rows(0, part.n);
    const auto d_loss = c.d_loss.rows(0, part.n);
    const double weight = makes.totals.of_all(ttt_step_weight(part.k, rows.steps()), step);
    row_adjoints(device, loss.row_adjoint(weight), part.of(rows.inputs().counts), part.of(rows.outputs().alphas),
                 d_loss);
    loss.row_gradients(device, logits, p, makes.totals.mean_alpha(step), Vector<const S>(d_loss), d_logits, arena);
    Draft::template head_backward<T>(Workspace(device, arena), w, *d_w, out(part), c.x.rows(0, part.n), d_logits,
                                     unrolled.d_out[step].rows(part.row, part.n));
  }

  auto out(const Part& part) const { return unrolled.acts.step(part.k).out.rows(part.row, part.n); }
};

}  // namespace K3SPEC_NAMESPACE
