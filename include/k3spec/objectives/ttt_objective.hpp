#pragma once
/// \file
/// The EAGLE-3 training objective: the draft unrolled over K test-time-training steps, at each a loss against the
/// target's distribution over the draft vocabulary (TttLoss), mean over supervised positions, steps weighted 0.8^k.
///
/// The vocabulary is walked in chunks of teacher rows: row r supervises step k at row r - k, so the target's
/// probabilities of a chunk are made once and serve all K steps; no logits of a whole batch ever exist. LK's lambda
/// weighs its gradients by all batches' mean acceptance: where that is not given, they take a second walk.
/// defines: TttObjective

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/comm/sum.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/objectives/ttt_buffers.hpp>
#include <k3spec/objectives/ttt_loss.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>
#include <k3spec/objectives/ttt_result.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/gather_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// The loss of an EAGLE-3 draft over the steps of its training, and its gradient.
/// \tparam ChunkRows  rows of logits that exist at a time
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::draft_vocabulary)>
class TttObjective {
 public:
  using S = accumulate_t<T>;
  using Batch = TttBatch<T, Draft::aux_width>;
  using Totals = TttTotals;
  static_assert(TttResult::max_steps == static_cast<std::size_t>(Draft::max_steps));
  static constexpr index_t vocabulary = Draft::draft_vocabulary;
  static constexpr index_t chunk = ChunkRows;

  /// Memory for batches of one size.
  /// \param rows  sequences · length of a batch
  /// \throws Error on steps or loss options out of range
  TttObjective(index_t rows, index_t steps, const TttLoss& loss = {})
      : rows_(rows), steps_(steps), loss_(loss), arena_(bytes(rows, steps)) {
    loss_.check();
    plan(arena_, rows, steps, &acts_, &buffers_);
  }

  /// Bytes of all activations, gradients between layers and chunks.
  static constexpr std::size_t bytes(index_t rows, index_t steps) {
    ArenaPlan a;
    Activations acts{};
    Buffers buffers{};
    plan(a, rows, steps, &acts, &buffers);
    a.borrow(std::max(Draft::template scratch_bytes<T>(rows, steps), chunk_bytes(rows)));
    return a.peak();
  }

  // ---- Each throws Error on a batch, a teacher or a d_aux of other shapes, and on an id out of range

  /// What this batch adds to the totals of its step: to be summed over all batches and ranks before any of them runs
  /// forward_backward. Only LK's lambda runs the draft for it.
  template <class Teacher>
  Totals count(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Batch& batch,
               const Teacher& teacher) {
    check(batch, teacher);
    TttResult result;
    result.step_supervised = supervise_rows(batch, steps_, buffers_.supervised);
    if (loss_.lk == LkLoss::lambda && result.supervises()) {
      unroll(cpu, w, batch);
      walk(cpu, w, {true, false, nullptr, {}}, batch, teacher, result);
    }
    return {result.step_supervised, result.step_alpha_sums};
  }

  /// Loss and counters only.
  template <class Teacher>
  TttResult evaluate_only(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Batch& batch,
                          const Teacher& teacher) {
    return run(cpu, w, nullptr, batch, teacher, std::nullopt, Matrix<S>());
  }

  /// Loss and counters of this batch, and gradients added to d_w. A batch that supervises nothing has zero losses and
  /// gradients, and its chains are counted.
  /// \param totals  counts summed over all batches of the step, by which gradients are divided; none: this batch's
  /// \param d_aux   [R, A] gets the gradient of batch.aux unless it is empty
  template <class Teacher>
  TttResult forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                             const typename Draft::template Weights<S>& d_w, const Batch& batch, const Teacher& teacher,
                             const std::optional<Totals>& totals = std::nullopt, const Matrix<S>& d_aux = Matrix<S>()) {
    return run(cpu, w, &d_w, batch, teacher, totals, d_aux);
  }
  /// The same where each rank has one batch of the step: their totals are counted and summed here. The gradients in d_w
  /// are this rank's part: summed over all ranks they are the step's.
  template <class Teacher, Communicator C>
  TttResult forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                             const typename Draft::template Weights<S>& d_w, const Batch& batch, const Teacher& teacher,
                             C& comm, const Matrix<S>& d_aux = Matrix<S>()) {
    std::optional<Totals> totals;
    if (comm.size() > 1) {
      totals = count(cpu, w, batch, teacher);
      k3spec::sum(comm, *totals);
    }
    return forward_backward(cpu, w, d_w, batch, teacher, totals, d_aux);
  }

  /// The state that step k's head reads, after either call: rows of [R, H].
  /// \throws Error on another step
  const Rows<T, Draft::hidden>& out(index_t k) const {
    require_index("TttObjective: step", k, steps_);
    return acts_.step(k).out;
  }
  index_t steps() const { return steps_; }
  const TttLoss& loss() const { return loss_; }
  /// The most bytes that were in use at a time; bytes(rows, steps) once forward_backward has run on a batch that
  /// supervises something.
  std::size_t peak_bytes() const { return arena_.peak(); }

 private:
  using Activations = typename Draft::template Activations<T>;
  using GradientWeights = typename Draft::template Weights<S>;

  using Buffers = TttBuffers<Draft, T>;
  using Chunk = TttChunk<Draft, T>;

  template <Allocator A>
  static constexpr void plan(A& a, index_t rows, index_t steps, Activations* acts, Buffers* b) {
    *acts = Activations::allocate(a, rows, steps);
    *b = Buffers::allocate(a, rows, steps);
  }

  static constexpr std::size_t chunk_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      const index_t n = std::min(rows, chunk);
      Chunk::allocate(a, n);
      a.borrow(std::max(Draft::template head_scratch_bytes<T>(n), TttLoss::scratch_bytes<S>(n)));
    });
  }

  template <class Teacher>
  void check(const Batch& batch, const Teacher& teacher) const {
    check_ttt_batch(batch, rows_, Draft::vocabulary);
    teacher.check(rows_, vocabulary);
  }

  template <class Teacher>
  TttResult run(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const GradientWeights* d_w,
                const Batch& batch, const Teacher& teacher, const std::optional<Totals>& totals,
                const Matrix<S>& d_aux) {
    check(batch, teacher);
    if (d_aux.extent(0) != 0) require_shape("batch: d_aux", d_aux, rows_, Draft::aux_width);
    TttResult result;
    result.step_supervised = supervise_rows(batch, steps_, buffers_.supervised);
    if (totals) totals->check_holds(result.step_supervised);
    unroll(cpu, w, batch);
    if (result.supervises()) {
      walks(cpu, w, d_w, batch, teacher, totals, result);
      if (d_w != nullptr) {
        Draft::template backward<T>(cpu, w, *d_w, batch.length, batch.aux, visibility(batch), rotary_positions(batch),
                                    acts_, std::span(buffers_.d_out).first(static_cast<std::size_t>(steps_)), d_aux,
                                    arena_, d_aux.extent(0) == 0 ? Into::nothing : Into::overwrite);
      }
    } else if (d_aux.size() > 0) {
      evaluate(cpu, expr::as_expression(0.0), d_aux);
    }
    gather(batch, result);
    return result;
  }

  /// All steps of the draft; what the vocabulary will add begins at 0.
  void unroll(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Batch& batch) {
    Draft::template forward<T>(cpu, w, batch.input_ids, batch.length, batch.aux, visibility(batch),
                               rotary_positions(batch), acts_);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps_); ++k) {
      evaluate(cpu, expr::as_expression(0.0), buffers_.d_out[k]);
      std::fill_n(buffers_.right[k].data(), rows_, std::uint8_t{0});
      std::fill_n(buffers_.losses[k].data(), rows_, S(0));
      std::fill_n(buffers_.alphas[k].data(), rows_, S(0));
    }
  }

  static CausalVisibility visibility(const Batch& batch) {
    if (batch.documents.packed()) return {nullptr, batch.length, batch.documents.start.data()};
    return {batch.attention_mask.data(), batch.length};
  }

  RotaryPositions rotary_positions(const Batch& batch) const {
    if (batch.position_ids.extent(0) > 0) return {batch.position_ids.data(), batch.length};
    if (!Draft::Attention::has_rope || !batch.documents.packed()) return {nullptr, batch.length};
    const auto& ids = buffers_.position_ids;
    for (index_t r = 0; r < rows_; ++r) ids(r) = r % batch.length - batch.documents.start(r);
    return {ids.data(), batch.length};
  }

  /// What a walk over the vocabulary makes.
  struct Pass {
    bool alphas, losses;         // losses: which predictions are right, too
    const GradientWeights* d_w;  // null: no d_out
    Totals totals;               // of d_out
  };

  /// Losses of all rows and steps, their acceptance, and d_out unless d_w is null.
  template <class Teacher>
  void walks(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const GradientWeights* d_w,
             const Batch& batch, const Teacher& teacher, const std::optional<Totals>& totals, TttResult& result) {
    const bool apart = d_w != nullptr && loss_.lk == LkLoss::lambda && !totals;
    if (apart) walk(cpu, w, {true, false, nullptr, {}}, batch, teacher, result);
    const Totals own{result.step_supervised, result.step_alpha_sums};
    walk(cpu, w, {loss_.lk != LkLoss::none && !apart, true, d_w, totals.value_or(own)}, batch, teacher, result);
  }

  template <class Teacher>
  void walk(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Pass& pass, const Batch& batch,
            const Teacher& teacher, TttResult& result) {
    for (index_t r = 0; r < rows_; r += chunk) {
      teach(cpu, w, pass, batch, teacher, r, std::min(chunk, rows_ - r));
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps_); ++k) {
      result.step_alpha_sums[k] = sum(buffers_.alphas[k]);
    }
  }

  /// Rows in ascending order.
  static double sum(Vector<const S> values) {
    double all = 0;
    for (index_t r = 0; r < values.extent(0); ++r) all += static_cast<double>(values(r));
    return all;
  }

  /// Teacher rows [first, first + n): the pass's part of every prediction they supervise.
  template <class Teacher>
  void teach(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Pass& pass, const Batch& batch,
             const Teacher& teacher, index_t first, index_t n) {
    Scope scope(arena_);
    const Chunk c = Chunk::allocate(arena_, n);
    teacher.selected_logits(cpu, first, c.p.matrix());
    evaluate(cpu, softmax_formula(), c.p, c.p);
    if (pass.losses) argmax(cpu, c.p, c.top_p);
    for (index_t k = 0; k < steps_; ++k) {
      const index_t skip = std::max<index_t>(0, k - first);
      if (skip < n) predict(cpu, w, pass, batch, c, {k, first + skip, skip, n - skip});
    }
  }

  /// Predictions of step k at rows [teacher_row - k, … + n), supervised by chunk rows [offset, offset + n).
  struct Predictions {
    index_t k, teacher_row, offset, n;
  };

  void predict(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Pass& pass, const Batch& batch,
               const Chunk& c, const Predictions& some) {
    const auto [k, teacher_row, offset, n] = some;
    const auto step = static_cast<std::size_t>(k);
    const index_t row = teacher_row - k;
    const auto out = acts_.step(k).out.rows(row, n);
    const auto x = c.x.rows(0, n);
    const auto p = c.p.rows(offset, n);
    const auto logits = c.logits.rows(0, n), d_logits = c.d_logits.rows(0, n);
    Draft::head_input(cpu, w, out, x);
    Draft::compute_logits(cpu, w, x, logits);
    const auto losses = Vector<S>(buffers_.losses[step].data() + row, n);
    const auto alphas = Vector<S>(buffers_.alphas[step].data() + row, n);
    if (pass.alphas) TttLoss::row_alphas(cpu, logits, p, alphas);
    if (pass.losses) {
      argmax(cpu, logits, c.top_q.rows(0, n));
      loss_.row_losses(cpu, logits, p, Vector<const S>(alphas.data(), n), losses);
    }
    const double weight = pass.totals.of_all(ttt_step_weight(k, steps_), step);
    for (index_t i = 0; i < n; ++i) {
      // Else no prediction, or one of another document: its d_out stays 0.
      const bool counted = k < predicted_steps(batch, row + i) && buffers_.supervised(teacher_row + i) != 0;
      c.d_loss(i) = counted ? loss_.row_adjoint(weight, alphas(i)) : S(0);
      if (!counted) losses(i) = S(0), alphas(i) = S(0);
      if (pass.losses) buffers_.right[step](row + i) = counted && c.top_q(i) == c.top_p(offset + i) ? 1 : 0;
    }
    if (pass.d_w == nullptr) return;
    loss_.row_gradients(cpu, logits, p, pass.totals.mean_alpha(step), Vector<const S>(c.d_loss.data(), n), d_logits,
                        arena_);
    Draft::template head_backward<T>(cpu, w, *pass.d_w, out, x, d_logits, buffers_.d_out[step].rows(row, n), arena_);
  }

  /// Adds up losses and counters, rows and steps in ascending order.
  void gather(const Batch& batch, TttResult& result) const {
    for (index_t k = 0; k < steps_; ++k) {
      const auto step = static_cast<std::size_t>(k);
      const index_t supervised = result.step_supervised[step];
      const auto n = static_cast<double>(std::max<index_t>(1, supervised));
      for (index_t r = 0; r < rows_; ++r) result.step_correct[step] += buffers_.right[step](r);
      result.correct += result.step_correct[step];
      result.supervised += supervised;
      result.step_loss_sums[step] = sum(buffers_.losses[step]);
      result.step_alphas[step] = result.step_alpha_sums[step] / n;
      result.step_losses[step] = loss_.of_step(result.step_loss_sums[step] / n, result.step_alphas[step], supervised);
      result.loss += ttt_step_weight(k, steps_) * result.step_losses[step];
    }
    for (index_t r = 0; r < rows_; ++r) count_chains(batch, steps_, r, buffers_.right, result);
  }

  index_t rows_, steps_;
  TttLoss loss_;
  Arena arena_;
  Activations acts_{};
  Buffers buffers_{};
};

}  // namespace K3SPEC_NAMESPACE
