#pragma once
/// \file
/// The EAGLE-3 training objective: the draft unrolled over K test-time-training steps, at each a loss against the
/// target's distribution over the draft vocabulary (TttLoss), mean over supervised positions, steps weighted 0.8^k.
///
/// The vocabulary is walked in chunks of teacher rows: row r supervises step k at row r - k, so the target's
/// probabilities of a chunk are made once and serve all K steps; no logits of a whole batch ever exist. LK's lambda
/// weighs its gradients by all batches' mean acceptance: where that is not given, they take a second walk. Between its
/// beginning and the end of a walk a step does not wait for the device.
/// defines: TttObjective

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/comm/sum.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/objectives/input_gradient.hpp>
#include <k3spec/objectives/ttt_chunk.hpp>
#include <k3spec/objectives/ttt_rows.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/row_adjoints.hpp>

namespace K3SPEC_NAMESPACE {

/// The loss of an EAGLE-3 draft over the steps of its training, and its gradient.
/// \tparam ChunkRows  rows of logits that exist at a time
/// \tparam D          where weights, gradients, states and the teacher's are; the batch's lists are the host's
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::draft_vocabulary), Device D = Cpu>
class TttObjective {
 public:
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Batch = TttBatch<E, Draft::aux_width>;
  using Weights = typename Draft::template Weights<const E>;
  using GradientWeights = typename Draft::template Weights<S>;
  using Totals = TttTotals;
  static_assert(TttResult::max_steps == static_cast<std::size_t>(Draft::max_steps));
  static constexpr index_t vocabulary = Draft::draft_vocabulary;
  static constexpr index_t chunk = ChunkRows;

  /// Memory for batches of one size.
  /// \param rows  sequences · length of a batch
  /// \throws Error on steps or loss options out of range
  TttObjective(index_t rows, index_t steps, const TttLoss& loss = {}, const D& device = D{})
      : loss_(loss), arena_(device, device_bytes(rows, steps)), rows_(rows, steps, device) {
    loss_.check();
    plan(arena_, rows, steps, &acts_, &d_out_);
  }

  /// Bytes of all activations, gradients between layers, chunks and lists of rows.
  static constexpr std::size_t bytes(index_t rows, index_t steps) {
    return device_bytes(rows, steps) + Lists::bytes(rows, steps);
  }

  // ---- Each throws Error on a batch, a teacher or a d_aux of other shapes, and on an id out of range

  /// What this batch adds to the totals of its step: to be summed over all batches and ranks before any of them runs
  /// forward_backward. Only LK's lambda runs the draft for it.
  template <class Teacher>
  Totals count(const D& device, const Weights& w, const Batch& batch, const Teacher& teacher) {
    const Call<Teacher> call{device, w, nullptr, batch, teacher};
    TttResult result = begin(call);
    if (loss_.lk == LkLoss::lambda && result.supervises()) {
      unroll(call);
      walk(call, acceptance_alone, result);
    }
    return {result.step_supervised, result.step_alpha_sums};
  }

  /// Loss and counters only.
  template <class Teacher>
  TttResult evaluate_only(const D& device, const Weights& w, const Batch& batch, const Teacher& teacher) {
    return run(Call<Teacher>{device, w, nullptr, batch, teacher}, std::nullopt, {});
  }

  /// Loss and counters of this batch, and gradients added to d_w. A batch that supervises nothing has zero losses and
  /// gradients, and its chains are counted.
  /// \param totals  counts summed over all batches of the step, by which gradients are divided; none: this batch's
  /// \param d_aux   of batch.aux [R, A]
  template <class Teacher>
  TttResult forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                             const Teacher& teacher, const std::optional<Totals>& totals = std::nullopt,
                             const InputGradient<S>& d_aux = {}) {
    return run(Call<Teacher>{device, w, &d_w, batch, teacher}, totals, d_aux);
  }
  /// The same where each rank has one batch of the step: their totals are counted and summed here. The gradients in d_w
  /// are this rank's part: summed over all ranks they are the step's.
  template <class Teacher, Communicator C>
  TttResult forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                             const Teacher& teacher, C& comm, const InputGradient<S>& d_aux = {}) {
    std::optional<Totals> totals;
    if (comm.size() > 1) {
      totals = count(device, w, batch, teacher);
      k3spec::sum(comm, *totals);
    }
    return forward_backward(device, w, d_w, batch, teacher, totals, d_aux);
  }

  /// The state that step k's head reads, after either call: rows of [R, H].
  /// \throws Error on another step
  const Rows<E, Draft::hidden>& out(index_t k) const {
    require_index("TttObjective: step", k, steps());
    return acts_.step(k).out;
  }
  index_t steps() const { return rows_.steps(); }
  const TttLoss& loss() const { return loss_; }
  /// The most bytes that were in use at a time; bytes(rows, steps) once forward_backward has run on a batch that
  /// supervises something.
  std::size_t peak_bytes() const { return arena_.peak() + Lists::bytes(rows_.rows(), steps()); }

 private:
  using Activations = typename Draft::template Activations<E>;
  using Gradients = std::array<Rows<S, Draft::hidden>, TttResult::max_steps>;  // of each step's out
  using Chunk = TttChunk<Draft, E>;
  using Lists = TttRows<value_t<S>, D>;

  /// What a call is given. d_w: null where no gradients are wanted
  template <class Teacher>
  struct Call {
    const D& device;
    const Weights& w;
    const GradientWeights* d_w;
    const Batch& batch;
    const Teacher& teacher;
  };

  /// What a walk over the vocabulary makes.
  struct Walk {
    bool alphas, losses, gradients;  // losses: what the draft chooses, too; gradients: d_out
    Totals totals;                   // of d_out
  };
  static constexpr Walk acceptance_alone{true, false, false, {}};

  /// Predictions of step k at rows [teacher_row - k, … + n), supervised by chunk rows [offset, offset + n).
  struct Predictions {
    index_t k, teacher_row, offset, n;
  };

  template <Allocator A>
  static constexpr void plan(A& a, index_t rows, index_t steps, Activations* acts, Gradients* d_out) {
    *acts = Activations::allocate(a, rows, steps);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) take_rows(a, rows, (*d_out)[k]);
  }

  static constexpr std::size_t device_bytes(index_t rows, index_t steps) {
    ArenaPlan a;
    Activations acts{};
    Gradients d_out{};
    plan(a, rows, steps, &acts, &d_out);
    a.borrow(std::max(Draft::template scratch_bytes<E>(rows, steps), chunk_bytes(rows)));
    return a.peak();
  }

  static constexpr std::size_t chunk_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      const index_t n = std::min(rows, chunk);
      Chunk::allocate(a, n);
      a.borrow(std::max(Draft::template head_scratch_bytes<E>(n), TttLoss::scratch_bytes<value_t<S>>(n)));
    });
  }

  template <class Teacher>
  TttResult run(const Call<Teacher>& call, const std::optional<Totals>& totals, const InputGradient<S>& d_aux) {
    d_aux.check("batch: d_aux", rows_.rows(), Draft::aux_width);
    TttResult result = begin(call);
    if (totals) totals->check_holds(result.step_supervised);
    unroll(call);
    if (result.supervises()) {
      walks(call, totals, result);
      if (call.d_w != nullptr) backward(call, d_aux);
    } else if (d_aux.into == Into::overwrite) {
      evaluate(call.device, expr::as_expression(0.0), d_aux.to);
    }
    rows_.add_up(call.batch, loss_, result);
    return result;
  }

  /// Checks and takes over the batch.
  template <class Teacher>
  TttResult begin(const Call<Teacher>& call) {
    check_ttt_batch(call.batch, rows_.rows(), Draft::vocabulary);
    call.teacher.check(rows_.rows(), vocabulary);
    TttResult result;
    result.step_supervised = rows_.fill(call.batch, Draft::Attention::has_rope);
    return result;
  }

  /// All steps of the draft; what the vocabulary will add begins at 0.
  template <class Teacher>
  void unroll(const Call<Teacher>& call) {
    rows_.upload(call.device);
    Draft::template forward<E>(call.device, call.w, rows_.inputs().ids.device, call.batch.length, call.batch.aux,
                               rows_.visibility(), rows_.positions(), acts_);
    for (index_t k = 0; k < steps(); ++k) evaluate(call.device, expr::as_expression(0.0), d_out(k));
  }

  template <class Teacher>
  void backward(const Call<Teacher>& call, const InputGradient<S>& d_aux) {
    Draft::template backward<E>(call.device, call.w, *call.d_w, call.batch.length, call.batch.aux, rows_.visibility(),
                                rows_.positions(), acts_, std::span(d_out_).first(static_cast<std::size_t>(steps())),
                                d_aux.to, arena_, d_aux.into);
  }

  /// Losses of all rows and steps, their acceptance, and d_out where gradients are wanted.
  template <class Teacher>
  void walks(const Call<Teacher>& call, const std::optional<Totals>& totals, TttResult& result) {
    const bool learns = call.d_w != nullptr, apart = learns && loss_.lk == LkLoss::lambda && !totals;
    if (apart) walk(call, acceptance_alone, result);
    const Totals own{result.step_supervised, result.step_alpha_sums};
    walk(call, {loss_.lk != LkLoss::none && !apart, true, learns, totals.value_or(own)}, result);
  }

  template <class Teacher>
  void walk(const Call<Teacher>& call, const Walk& makes, TttResult& result) {
    for (index_t r = 0; r < rows_.rows(); r += chunk) {
      walk_chunk(call, makes, r, std::min(chunk, rows_.rows() - r));
    }
    rows_.download(call.device);
    for (index_t k = 0; makes.alphas && k < steps(); ++k) {
      result.step_alpha_sums[static_cast<std::size_t>(k)] = rows_.alpha_sum(k);
    }
  }

  /// Teacher rows [first, first + n): the walk's part of every prediction they supervise.
  template <class Teacher>
  void walk_chunk(const Call<Teacher>& call, const Walk& makes, index_t first, index_t n) {
    Scope scope(arena_);
    const Chunk c = Chunk::allocate(arena_, n);
    call.teacher.selected_logits(call.device, first, c.p.matrix());
    evaluate(call.device, softmax_formula(), c.p, c.p);
    if (makes.losses) argmax(call.device, c.p, rows_.outputs().taught.device.rows(first, n));
    for (index_t k = 0; k < steps(); ++k) {
      const index_t skip = std::max<index_t>(0, k - first);
      if (skip < n) predict(call, makes, c, {k, first + skip, skip, n - skip});
    }
  }

  template <class Teacher>
  void predict(const Call<Teacher>& call, const Walk& makes, const Chunk& c, const Predictions& some) {
    const auto [k, teacher_row, offset, n] = some;
    const index_t row = teacher_row - k;
    const auto part = [&, n = n](const auto& mirrored) {
      return mirrored[static_cast<std::size_t>(some.k)].device.rows(row, n);
    };
    const auto x = c.x.rows(0, n);
    const auto p = c.p.rows(offset, n), logits = c.logits.rows(0, n);
    const auto& results = rows_.outputs();
    Draft::head_input(call.device, call.w, acts_.step(k).out.rows(row, n), x);
    Draft::compute_logits(call.device, call.w, x, logits);
    if (makes.alphas) TttLoss::row_alphas(call.device, logits, p, part(results.alphas));
    if (makes.losses) argmax(call.device, logits, part(results.drafted));
    if (makes.losses && loss_.lk != LkLoss::alpha) TttLoss::row_losses(call.device, logits, p, part(results.losses));
    if (makes.gradients) send_back(call, makes.totals, c, some);
  }

  /// d_out of some predictions, from their logits. Where one does not count it stays 0.
  template <class Teacher>
  void send_back(const Call<Teacher>& call, const Totals& totals, const Chunk& c, const Predictions& some) {
    const auto [k, teacher_row, offset, n] = some;
    const auto step = static_cast<std::size_t>(k);
    const index_t row = teacher_row - k;
    const auto p = c.p.rows(offset, n), logits = c.logits.rows(0, n), d_logits = c.d_logits.rows(0, n);
    const auto d_loss = c.d_loss.rows(0, n);
    row_adjoints(call.device, loss_.row_adjoint(totals.of_all(ttt_step_weight(k, steps()), step)),
                 rows_.inputs().counts[step].device.rows(row, n), rows_.outputs().alphas[step].device.rows(row, n),
                 d_loss);
    loss_.row_gradients(call.device, logits, p, totals.mean_alpha(step), Vector<const S>(d_loss), d_logits, arena_);
    Draft::template head_backward<E>(call.device, call.w, *call.d_w, acts_.step(k).out.rows(row, n), c.x.rows(0, n),
                                     d_logits, d_out(k).rows(row, n), arena_);
  }

  const Rows<S, Draft::hidden>& d_out(index_t k) const { return d_out_[static_cast<std::size_t>(k)]; }

  TttLoss loss_;
  arena_t<D> arena_;
  Lists rows_;
  Activations acts_{};
  Gradients d_out_{};
};

}  // namespace K3SPEC_NAMESPACE
