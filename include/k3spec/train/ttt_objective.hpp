#pragma once
/// \file
/// The EAGLE-3 training objective: the draft unrolled over K test-time-training steps, soft cross-entropy against the
/// target's distribution over the draft vocabulary, mean over supervised positions, steps weighted 0.8^k.
///
/// The vocabulary is walked in chunks of teacher rows: row r supervises step k at row r - k, so the target's
/// probabilities of a chunk are made once and serve all K steps; no logits of a whole batch ever exist.
/// defines: TttBatch, TttResult, TttObjective

#include <array>
#include <cstdint>
#include <span>

#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/train/block_rows.hpp>
#include <k3spec/train/metrics.hpp>
#include <k3spec/train/teacher.hpp>

namespace k3spec {

/// R = sequences · length rows. Everything but aux and attention_mask is shifted left by one already (SPEC: target
/// batch): row t holds the token, mask and teacher of position t + 1.
template <class T, index_t AuxWidth>
struct TttBatch {
  index_t length;
  Vector<const index_t> input_ids;
  Vector<const std::uint8_t> attention_mask, loss_mask;  // 0 or 1
  Rows<const T, AuxWidth> aux;
  /// The target's argmax over its full vocabulary.
  Vector<const index_t> teacher_top;
  /// [V] 1 where the draft can say the token.
  Vector<const std::uint8_t> t2d;
};

/// Of one batch. Losses are means over the supervised positions, all else are counts.
struct TttResult {
  static constexpr std::size_t max_steps = 16;
  double loss = 0;
  std::array<double, max_steps> step_losses{};
  /// Supervised predictions, and those of them that are the teacher's choice: per step, and over all steps.
  std::array<index_t, max_steps> step_supervised{}, step_correct{};
  index_t valid = 0, correct = 0;
  /// Chains of k + 1 right tokens, and chains that could have been.
  std::array<index_t, max_steps> step_prefix_hits{}, step_valid{};

  /// 1 + Σ_k P(the first k + 1 drafted tokens are all right)
  double simulated_accept_length(index_t steps) const {
    double length = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      length += static_cast<double>(step_prefix_hits[k]) / static_cast<double>(std::max<index_t>(1, step_valid[k]));
    }
    return length;
  }
};

template <class Draft, Element T>
class TttObjective {
 public:
  using S = accumulate_t<T>;
  using Batch = TttBatch<T, Draft::aux_width>;
  static constexpr index_t vocabulary = Draft::draft_vocabulary;
  /// Rows of logits that exist at a time.
  static constexpr index_t chunk = chunk_rows(vocabulary);

  /// \param rows  sequences · length of the largest batch
  TttObjective(index_t rows, index_t steps) : rows_(rows), steps_(steps), arena_(bytes(rows, steps)) {
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

  /// Loss and counters only.
  template <class Teacher>
  TttResult evaluate_only(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const Batch& batch,
                          const Teacher& teacher) {
    return run(cpu, w, nullptr, batch, teacher, Matrix<S>());
  }

  /// Loss, counters, and gradients added to d_w. d_aux [R, A] gets the gradient of batch.aux unless it is empty.
  template <class Teacher>
  TttResult forward_backward(const Cpu& cpu, const typename Draft::template Weights<const T>& w,
                             const typename Draft::template Weights<S>& d_w, const Batch& batch, const Teacher& teacher,
                             const Matrix<S>& d_aux = Matrix<S>()) {
    return run(cpu, w, &d_w, batch, teacher, d_aux);
  }

  /// The state that step k's head reads, after either call: rows of [R, H].
  const Rows<T, Draft::hidden>& out(index_t k) const { return acts_.step(k).out; }
  index_t steps() const { return steps_; }
  /// The most bytes that were in use at a time; bytes(rows, steps) once forward_backward has run.
  std::size_t peak_bytes() const { return arena_.peak(); }

 private:
  using Activations = typename Draft::template Activations<T>;
  using GradientWeights = typename Draft::template Weights<S>;

  struct Buffers {
    std::array<Rows<S, Draft::hidden>, Draft::max_steps> d_out;
    std::array<Vector<S>, Draft::max_steps> losses;            // per row
    std::array<Vector<std::uint8_t>, Draft::max_steps> right;  // argmax agrees and supervised
    Vector<std::uint8_t> supervised;                           // loss mask and teacher's choice in the draft vocabulary
  };

  /// Working memory of one chunk.
  struct Chunk {
    Rows<S, vocabulary> p, logits, d_logits;
    Rows<T, Draft::hidden> x;
    Vector<S> d_loss;
    Vector<index_t> top_p, top_q;

    template <Allocator A>
    static constexpr Chunk allocate(A& a, index_t n) {
      Chunk c;
      take_rows(a, n, c.p), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits), take_rows(a, n, c.x);
      take_rows(a, n, c.d_loss), take_rows(a, n, c.top_p), take_rows(a, n, c.top_q);
      return c;
    }
  };

  template <Allocator A>
  static constexpr void plan(A& a, index_t rows, index_t steps, Activations* acts, Buffers* b) {
    *acts = Activations::allocate(a, rows, steps);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      take_rows(a, rows, b->d_out[k]), take_rows(a, rows, b->losses[k]), take_rows(a, rows, b->right[k]);
    }
    take_rows(a, rows, b->supervised);
  }

  static constexpr std::size_t chunk_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      const index_t n = std::min(rows, chunk);
      Chunk::allocate(a, n);
      a.borrow(
          std::max(Draft::template head_scratch_bytes<T>(n), differentiate_scratch<decltype(loss_formula()), S>(n)));
    });
  }

  static constexpr auto loss_formula() { return soft_cross_entropy_formula(); }

  template <class Teacher>
  TttResult run(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const GradientWeights* d_w,
                const Batch& batch, const Teacher& teacher, const Matrix<S>& d_aux) {
    check(batch);
    const CausalVisibility visible{batch.attention_mask.data(), batch.length};
    Draft::template forward<T>(cpu, w, batch.input_ids, batch.length, batch.aux, visible, acts_);
    const TttResult counts = supervise(batch);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps_); ++k) {
      evaluate(cpu, expr::as_expression(0.0), buffers_.d_out[k]);
      std::fill_n(buffers_.right[k].data(), rows_, std::uint8_t{0});
      std::fill_n(buffers_.losses[k].data(), rows_, S(0));
    }
    for (index_t r = 0; r < rows_; r += chunk) {
      teach(cpu, w, d_w, batch, teacher, r, std::min(chunk, rows_ - r), counts);
    }
    if (d_w != nullptr) {
      Draft::template backward<T>(cpu, w, *d_w, batch.length, batch.aux, visible, acts_,
                                  std::span(buffers_.d_out).first(static_cast<std::size_t>(steps_)), d_aux, arena_);
    }
    return gather(batch, counts);
  }

  void check(const Batch& batch) const {
    const auto want = [&](const char* what, index_t n) {
      if (n != rows_) throw Error(std::string("batch: ") + what, std::to_string(n), std::to_string(rows_) + " rows");
    };
    want("input_ids", batch.input_ids.extent(0)), want("attention_mask", batch.attention_mask.extent(0));
    want("loss_mask", batch.loss_mask.extent(0)), want("aux", batch.aux.extent(0));
    want("teacher_top", batch.teacher_top.extent(0));
    if (batch.t2d.extent(0) != Draft::vocabulary) {
      throw Error("batch: t2d", std::to_string(batch.t2d.extent(0)), std::to_string(Draft::vocabulary) + " tokens");
    }
    for (index_t r = 0; r < rows_; ++r) {
      const index_t top = batch.teacher_top(r);
      if (top >= 0 && top < Draft::vocabulary) continue;
      throw Error("batch: teacher_top at row " + std::to_string(r), std::to_string(top),
                  "0 to " + std::to_string(Draft::vocabulary - 1));
    }
    if (batch.length > 0 && rows_ % batch.length == 0) return;
    throw Error("batch: length", std::to_string(batch.length), "a divisor of " + std::to_string(rows_));
  }

  /// Marks the supervised rows and counts, per step, how many predictions they supervise.
  TttResult supervise(const Batch& batch) {
    TttResult counts;
    for (index_t r = 0; r < rows_; ++r) {
      buffers_.supervised(r) = batch.loss_mask(r) != 0 && batch.t2d(batch.teacher_top(r)) != 0 ? 1 : 0;
      for (index_t k = 0; k < steps_ && k <= r % batch.length; ++k) {
        counts.step_supervised[static_cast<std::size_t>(k)] += buffers_.supervised(r);
      }
    }
    return counts;
  }

  double step_weight(index_t k) const {
    double all = 0, mine = 0, weight = 1;
    for (index_t i = 0; i < steps_; ++i, weight *= ttt_decay) {
      all += weight;
      if (i == k) mine = weight;
    }
    return mine / all;
  }

  /// Teacher rows [first, first + n): losses and d_out of every prediction they supervise.
  template <class Teacher>
  void teach(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const GradientWeights* d_w,
             const Batch& batch, const Teacher& teacher, index_t first, index_t n, const TttResult& counts) {
    Scope scope(arena_);
    const Chunk c = Chunk::allocate(arena_, n);
    teacher.selected_logits(cpu, first, c.p.matrix());
    evaluate(cpu, softmax_formula(), c.p, c.p);
    argmax(cpu, c.p, c.top_p);
    for (index_t k = 0; k < steps_; ++k) {
      const index_t skip = std::max<index_t>(0, k - first);
      if (skip < n) predict(cpu, w, d_w, batch, c, k, first + skip, skip, n - skip, counts);
    }
  }

  /// Step k's predictions at rows [teacher_row - k, … + n), supervised by chunk rows [offset, offset + n).
  void predict(const Cpu& cpu, const typename Draft::template Weights<const T>& w, const GradientWeights* d_w,
               const Batch& batch, const Chunk& c, index_t k, index_t teacher_row, index_t offset, index_t n,
               const TttResult& counts) {
    const auto step = static_cast<std::size_t>(k);
    const index_t row = teacher_row - k;
    const auto out = acts_.step(k).out.rows(row, n);
    const auto x = c.x.rows(0, n);
    const auto p = c.p.rows(offset, n);
    const auto logits = c.logits.rows(0, n), d_logits = c.d_logits.rows(0, n);
    Draft::head_input(cpu, w, out, x);
    Draft::compute_logits(cpu, w, x, logits);
    argmax(cpu, logits, c.top_q.rows(0, n));
    const auto losses = Vector<S>(buffers_.losses[step].data() + row, n);
    evaluate_rows(cpu, loss_formula(), losses, logits, p);
    const double weight = step_weight(k) / static_cast<double>(std::max<index_t>(1, counts.step_supervised[step]));
    for (index_t i = 0; i < n; ++i) {
      // A row of the sequence before: no prediction, and its d_out stays 0.
      const bool counted = (teacher_row + i) % batch.length >= k && buffers_.supervised(teacher_row + i) != 0;
      c.d_loss(i) = counted ? static_cast<S>(weight) : S(0);
      if (!counted) losses(i) = S(0);
      buffers_.right[step](row + i) = counted && c.top_q(i) == c.top_p(offset + i) ? 1 : 0;
    }
    if (d_w == nullptr) return;
    differentiate_rows(cpu, loss_formula(), Vector<const S>(c.d_loss.data(), n), gradients(overwrite(d_logits), none),
                       arena_, logits, p);
    Draft::template head_backward<T>(cpu, w, *d_w, out, x, d_logits, buffers_.d_out[step].rows(row, n), arena_);
  }

  /// Adds up losses and counters, rows and steps in ascending order.
  TttResult gather(const Batch& batch, const TttResult& counts) const {
    TttResult result;
    for (index_t k = 0; k < steps_; ++k) {
      const auto step = static_cast<std::size_t>(k);
      double sum = 0;
      for (index_t r = 0; r < rows_; ++r) {
        sum += static_cast<double>(buffers_.losses[step](r));
        result.step_correct[step] += buffers_.right[step](r);
      }
      result.step_supervised[step] = counts.step_supervised[step];
      result.correct += result.step_correct[step];
      result.valid += result.step_supervised[step];
      result.step_losses[step] = sum / static_cast<double>(std::max<index_t>(1, counts.step_supervised[step]));
      result.loss += step_weight(k) * result.step_losses[step];
    }
    for (index_t r = 0; r < rows_; ++r) count_chains(batch, r, result);
    return result;
  }

  /// A chain at row r stays valid while the loss mask allows, whatever the draft vocabulary; it hits while every
  /// prediction so far was right.
  void count_chains(const Batch& batch, index_t r, TttResult& result) const {
    bool valid = true, hit = true;
    for (index_t k = 0; k < steps_ && r % batch.length + k < batch.length; ++k) {
      const auto step = static_cast<std::size_t>(k);
      valid = valid && batch.loss_mask(r + k) != 0;
      hit = hit && buffers_.right[step](r) != 0;
      result.step_valid[step] += valid ? 1 : 0;
      result.step_prefix_hits[step] += hit ? 1 : 0;
    }
  }

  index_t rows_, steps_;
  Arena arena_;
  Activations acts_{};
  Buffers buffers_{};
};

}  // namespace k3spec
