#pragma once
/// \file
/// The EAGLE-3 training objective: the draft unrolled over K test-time-training steps, at each a loss against the
/// target's distribution over the draft vocabulary (TttLoss), mean over supervised positions, steps weighted 0.8^k.
///
/// The vocabulary is walked in chunks (objectives/ttt_walk.hpp): no logits of a whole batch ever exist. LK's lambda
/// weighs its gradients by all batches' mean acceptance: where that is not given, they take a second walk, and the host
/// waits between the two. Else it waits for the device once, at a step's end, for what came of the rows.
/// defines: TttObjective

#include <algorithm>
#include <optional>
#include <span>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/objectives/ttt_walk.hpp>
#include <k3spec/ops/copy.hpp>

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
  static_assert(max_ttt_steps == Draft::max_steps);
  static constexpr index_t vocabulary = Draft::draft_vocabulary;
  static constexpr index_t chunk = ChunkRows;

  /// Memory for batches of one size.
  /// \param rows  sequences · length of a batch
  /// \throws Error on steps or loss options out of range
  TttObjective(index_t rows, index_t steps, const TttLoss& loss = {}, const D& device = D{})
      : loss_(loss), arena_(device, device_bytes(rows, steps)), rows_(rows, steps, device) {
    loss_.check();
    unrolled_ = Unrolled::allocate(arena_, rows, steps);
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
    TttMetrics sums = begin(call);
    if (loss_.lk == LkLoss::lambda && sums.supervised() > 0) {
      unroll(call);
      find_acceptance(call, sums);
    }
    return Totals::of(sums);
  }

  /// Loss and counters only.
  template <class Teacher>
  TttMetrics evaluate_only(const D& device, const Weights& w, const Batch& batch, const Teacher& teacher) {
    return run(Call<Teacher>{device, w, nullptr, batch, teacher}, std::nullopt, {});
  }

  /// Loss and counters of this batch, and gradients added to d_w. A batch that supervises nothing has zero losses and
  /// gradients, and its chains are counted.
  /// \param totals  counts summed over all batches of the step, by which gradients are divided; none: this batch's
  /// \param d_aux   of batch.aux [R, A]
  template <class Teacher>
  TttMetrics forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                              const Teacher& teacher, const std::optional<Totals>& totals = std::nullopt,
                              const Destination<S>& d_aux = {}) {
    return run(Call<Teacher>{device, w, &d_w, batch, teacher}, totals, d_aux);
  }
  /// The same where each rank has one batch of the step: their totals are counted and summed here. The gradients in d_w
  /// are this rank's part: summed over all ranks they are the step's.
  template <class Teacher, Communicator C>
  TttMetrics forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                              const Teacher& teacher, C& comm, const Destination<S>& d_aux = {}) {
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
    return unrolled_.acts.step(k).out;
  }
  index_t steps() const { return rows_.steps(); }
  const TttLoss& loss() const { return loss_; }
  /// The most bytes that were in use at a time; bytes(rows, steps) once forward_backward has run on a batch that
  /// supervises something.
  std::size_t peak_bytes() const { return arena_.peak() + Lists::bytes(rows_.rows(), steps()); }

 private:
  using Unrolled = TttUnrolled<Draft, E>;
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

  static constexpr TttMakes acceptance_alone{true, false, false, {}};

  static constexpr std::size_t device_bytes(index_t rows, index_t steps) {
    ArenaPlan a;
    Unrolled::allocate(a, rows, steps);
    a.borrow(Draft::template scratch_bytes<E>(rows, steps));
    a.borrow(TttWalk<Draft, E, D, HiddenTeacher<E>>::bytes(std::min(rows, chunk)));
    return a.peak();
  }

  template <class Teacher>
  TttMetrics run(const Call<Teacher>& call, const std::optional<Totals>& totals, const Destination<S>& d_aux) {
    d_aux.check("batch: d_aux", rows_.rows(), Draft::aux_width);
    TttMetrics sums = begin(call);
    if (totals) totals->check_holds(Totals::of(sums));
    unroll(call);
    if (sums.supervised() > 0) {
      walks(call, totals, sums);
      if (call.d_w != nullptr) backward(call, d_aux);
      take_results(call.device, loss_.lk != LkLoss::none, sums);
    } else if (d_aux.into == Into::overwrite) {
      zero(call.device, d_aux.to);
    }
    rows_.add_up(call.batch, loss_, sums);
    return sums;
  }

  /// Checks and takes over the batch.
  template <class Teacher>
  TttMetrics begin(const Call<Teacher>& call) {
    check_ttt_batch(call.batch, rows_.rows(), Draft::vocabulary);
    call.teacher.check(rows_.rows(), vocabulary);
    TttMetrics sums(steps(), loss_);
    const auto supervised = rows_.fill(call.batch, Draft::Attention::has_rope);
    for (index_t k = 0; k < steps(); ++k) sums[k].supervised = supervised[static_cast<std::size_t>(k)];
    return sums;
  }

  /// All steps of the draft; what the vocabulary will add begins at 0.
  template <class Teacher>
  void unroll(const Call<Teacher>& call) {
    rows_.upload(call.device);
    Draft::template forward<E>(call.device, call.w, inputs(call), unrolled_.acts);
    for (const auto& d_out : d_outs()) zero(call.device, d_out);
  }

  template <class Teacher>
  typename Draft::template Inputs<E, CausalVisibility> inputs(const Call<Teacher>& call) const {
    return {rows_.inputs().ids.device, call.batch.length, call.batch.aux, rows_.visibility(), rows_.positions()};
  }

  std::span<const Rows<S, Draft::hidden>> d_outs() const {
    return std::span(unrolled_.d_out).first(static_cast<std::size_t>(steps()));
  }

  template <class Teacher>
  void backward(const Call<Teacher>& call, const Destination<S>& d_aux) {
    Draft::template backward<E>(Workspace(call.device, arena_), call.w, *call.d_w, inputs(call), unrolled_.acts,
                                d_outs(), d_aux);
  }

  /// Losses of all rows and steps, their acceptance, and d_out where gradients are wanted.
  template <class Teacher>
  void walks(const Call<Teacher>& call, const std::optional<Totals>& totals, TttMetrics& sums) {
    const bool learns = call.d_w != nullptr, apart = learns && loss_.lk == LkLoss::lambda && !totals;
    if (apart) find_acceptance(call, sums);
    walk(call, {loss_.lk != LkLoss::none && !apart, true, learns, totals.value_or(Totals::of(sums))});
  }

  /// Acceptance alone of all rows and steps: the host waits for it.
  template <class Teacher>
  void find_acceptance(const Call<Teacher>& call, TttMetrics& sums) {
    walk(call, acceptance_alone);
    take_results(call.device, true, sums);
  }

  /// What the device made of each row, to the host.
  void take_results(const D& device, bool alphas, TttMetrics& sums) {
    rows_.download(device);
    for (index_t k = 0; alphas && k < steps(); ++k) sums[k].alpha = rows_.alpha_sum(k);
  }

  template <class Teacher>
  void walk(const Call<Teacher>& call, const TttMakes& makes) {
    const TttWalk<Draft, E, D, Teacher> all{call.device, call.w,    call.d_w, call.teacher, loss_,
                                            rows_,       unrolled_, arena_,   makes};
    for (index_t r = 0; r < rows_.rows(); r += chunk) all.run(r, std::min(chunk, rows_.rows() - r));
  }

  TttLoss loss_;
  arena_t<D> arena_;
  Lists rows_;
  Unrolled unrolled_{};
};

}  // namespace K3SPEC_NAMESPACE
