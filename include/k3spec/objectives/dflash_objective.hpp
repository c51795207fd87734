#pragma once
/// \file
/// The DFlash training objective: all blocks of a batch through the draft at once, cross-entropy with the true tokens,
/// weighted by slot, divided by the weights' sum. Embedding and head are the frozen target's own.
///
/// Supervised slots go through the vocabulary in chunks, forward and backward: no logits of a whole batch ever exist.
/// defines: DFlashTarget, DFlashObjective

#include <algorithm>
#include <optional>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/batches/block_batch.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/comm/sum.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/gather_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// What a DFlash draft reads of its target: [vocabulary, H] each.
template <class T>
struct DFlashTarget {
  Matrix<const T> embed_tokens, lm_head;
};

/// The loss of a DFlash draft on a batch of blocks, and its gradient.
/// \tparam ChunkRows  rows of logits that exist at a time; no bit depends on it
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::vocabulary)>
class DFlashObjective {
 public:
  using S = accumulate_t<T>;
  using Backbone = typename Draft::Backbone;
  using Batch = BlockBatch<T, Draft::target_width>;
  using Weights = typename Draft::template Weights<const T>;
  using GradientWeights = typename Draft::template Weights<S>;
  using Target = DFlashTarget<T>;
  using Totals = BlockTotals;
  static constexpr index_t vocabulary = Draft::vocabulary;

  /// Memory for batches of one size.
  /// \param sequences, length, blocks  of every batch
  /// \param gamma                      of the slots' weights; infinity: they weigh alike
  /// \throws Error when the config's mask token is none, and on a gamma that is not > 0
  DFlashObjective(index_t sequences, index_t length, index_t blocks, double gamma)
      : span_{sequences, length, blocks, Draft::block_size},
        rule_{Slot::anchor_plus_k, check_mask_token<typename Draft::config>(), gamma},
        arena_(bytes(span_)) {
    rule_.check();
    plan(arena_, span_, &acts_, &b_);
  }

  /// Bytes of all activations, gradients between layers and chunks.
  static constexpr std::size_t bytes(const BlockSpan& span) {
    ArenaPlan a;
    Activations acts{};
    Buffers buffers{};
    plan(a, span, &acts, &buffers);
    a.borrow(Backbone::template scratch_bytes<T>(span.context_rows(), span.noise_rows()));
    a.borrow(plan_bytes([&](ArenaPlan& c) { Chunk::allocate(c, std::min(span.noise_rows(), ChunkRows)); }));
    return a.peak();
  }

  // ---- Each throws Error on a batch, a target or a gradient of other shapes, and on an id out of range

  /// What a batch adds to its step's totals: to be summed over all batches, and ranks, before any forward_backward.
  Totals count(const Batch& batch) {
    check_block_batch(span_, vocabulary, batch);
    b_.targets.fill(rule_, span_, batch);
    return {b_.targets.total_weight()};
  }

  /// Loss and counters only.
  DFlashSums evaluate_only(const Cpu& cpu, const Weights& w, const Target& target, const Batch& batch) {
    return run(cpu, w, nullptr, target, batch, std::nullopt, Matrix<S>());
  }

  /// Loss, counters, and gradients added to d_w, those of Σ weight · loss / (totals.weight + 1e-6).
  /// \param totals           counts summed over all batches of the step; none: this batch's
  /// \param d_target_hidden  [R, target_width] gets the gradient of batch.target_hidden unless it is empty
  DFlashSums forward_backward(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, const Target& target,
                              const Batch& batch, const std::optional<Totals>& totals = std::nullopt,
                              const Matrix<S>& d_target_hidden = Matrix<S>()) {
    return run(cpu, w, &d_w, target, batch, totals, d_target_hidden);
  }
  /// The same where each rank has one batch of the step: their totals are summed here. The gradients in d_w are this
  /// rank's part: summed over all ranks they are the step's.
  template <Communicator C>
  DFlashSums forward_backward(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, const Target& target,
                              const Batch& batch, C& comm, const Matrix<S>& d_target_hidden = Matrix<S>()) {
    Totals totals = count(batch);
    sum(comm, totals);
    return forward_backward(cpu, w, d_w, target, batch, totals, d_target_hidden);
  }

  /// The states that the head reads, after any call: [sequences · blocks · block_size, H].
  const Rows<T, Draft::hidden>& out() const { return acts_.out; }
  const BlockTargets& targets() const { return b_.targets; }
  const BlockSpan& span() const { return span_; }
  /// The most bytes that were in use at a time; bytes(span()) once forward_backward has run.
  std::size_t peak_bytes() const { return arena_.peak(); }

 private:
  using Activations = typename Backbone::template Activations<T>;

  struct Buffers {
    BlockTargets targets;
    Rows<T, Draft::hidden> noise;
    Rows<S, Draft::hidden> d_out;
    Vector<index_t> rows;        // supervised ones
    Vector<std::uint8_t> right;  // argmax is the label, and supervised
  };

  /// Working memory of one chunk.
  struct Chunk {
    Rows<T, Draft::hidden> x;
    Rows<S, Draft::hidden> d_x;
    Rows<S, vocabulary> logits, d_logits;
    Vector<S> losses, largest, d_losses;
    Vector<index_t> labels, top;

    template <Allocator A>
    static constexpr Chunk allocate(A& a, index_t n) {
      Chunk c;
      take_rows(a, n, c.x), take_rows(a, n, c.d_x), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits);
      take_rows(a, n, c.losses), take_rows(a, n, c.largest), take_rows(a, n, c.d_losses);
      take_rows(a, n, c.labels), take_rows(a, n, c.top);
      return c;
    }
  };

  template <Allocator A>
  static constexpr void plan(A& a, const BlockSpan& span, Activations* acts, Buffers* b) {
    const index_t rows = span.noise_rows();
    *acts = Activations::allocate(a, span.context_rows(), rows);
    b->targets = BlockTargets::allocate(a, rows);
    take_rows(a, rows, b->noise), take_rows(a, rows, b->d_out), take_rows(a, rows, b->rows);
    take_rows(a, rows, b->right);
  }

  DFlashSums run(const Cpu& cpu, const Weights& w, const GradientWeights* d_w, const Target& target, const Batch& batch,
                 const std::optional<Totals>& totals, const Matrix<S>& d_target_hidden) {
    if (d_target_hidden.extent(0) != 0) {
      require_shape("batch: d_target_hidden", d_target_hidden, span_.context_rows(), Draft::target_width);
    }
    require_shape("target: embed_tokens", target.embed_tokens, vocabulary, Draft::hidden);
    require_shape("target: lm_head", target.lm_head, vocabulary, Draft::hidden);
    DFlashSums sums;
    const Totals own = count(batch), all = own.of_step(totals);
    sums.loss.denominator = own.weight;
    const auto visible = block_visibility<typename Draft::config>(batch);
    embedding_forward<T>(cpu, b_.targets.noise_ids, target.embed_tokens, b_.noise);
    Backbone::template forward<T>(cpu, Draft::backbone(w), batch.target_hidden, b_.noise, span_, visible, acts_);
    evaluate(cpu, expr::as_expression(0.0), b_.d_out);
    std::fill_n(b_.right.data(), b_.right.extent(0), std::uint8_t{0});
    const index_t n = supervised_rows(b_.targets.supervised, b_.rows);
    for (index_t first = 0; first < n; first += ChunkRows) {
      Scope scope(arena_);
      predict(cpu, target, b_.rows.rows(first, std::min(ChunkRows, n - first)), d_w == nullptr ? nullptr : &all.weight,
              sums);
    }
    count(sums);
    if (d_w != nullptr) {
      Backbone::template backward<T>(cpu, Draft::backbone(w), Draft::backbone(*d_w), batch.target_hidden, b_.noise,
                                     span_, visible, acts_, b_.d_out,
                                     {Matrix<S>(), d_target_hidden, Into::nothing,
                                      d_target_hidden.extent(0) == 0 ? Into::nothing : Into::overwrite},
                                     arena_);
    }
    return sums;
  }

  /// Loss of some rows and, given the total weight, their d_out.
  void predict(const Cpu& cpu, const Target& target, Vector<const index_t> rows, const double* total,
               DFlashSums& sums) {
    const index_t n = rows.extent(0);
    // All of a chunk's memory even for a last one that is smaller: the plan does not depend on the batch.
    const Chunk all = Chunk::allocate(arena_, std::min(span_.noise_rows(), ChunkRows));
    const auto x = all.x.rows(0, n);
    const auto logits = all.logits.rows(0, n);
    const auto losses = all.losses.rows(0, n), largest = all.largest.rows(0, n);
    const auto labels = all.labels.rows(0, n), top = all.top.rows(0, n);
    gather_rows(cpu, rows, acts_.out, x);
    gemm(cpu, x.matrix(), Op::plain, target.lm_head, Op::transposed, logits.matrix());
    argmax(cpu, logits, top);
    for (index_t i = 0; i < n; ++i) labels(i) = b_.targets.labels(rows(i)), largest(i) = logits(i, top(i));
    evaluate_rows(cpu, log_mass_formula(), losses, logits, largest);
    subtract_label(logits, Vector<const S>(largest), labels, losses);
    for (index_t i = 0; i < n; ++i) {
      sums.loss.numerator += b_.targets.weights(rows(i)) * static_cast<double>(losses(i));
      b_.right(rows(i)) = top(i) == labels(i) ? 1 : 0;
    }
    if (total == nullptr) return;
    const auto d_losses = all.d_losses.rows(0, n);
    const auto d_logits = all.d_logits.rows(0, n);
    const auto d_x = all.d_x.rows(0, n);
    for (index_t i = 0; i < n; ++i) d_losses(i) = static_cast<S>(block_loss_mean(b_.targets.weights(rows(i)), *total));
    differentiate_rows(cpu, log_mass_formula(), d_losses, gradients(overwrite(d_logits), no_gradient), arena_, logits,
                       largest);
    subtract_label_backward(labels, 1.0, Vector<const S>(d_losses), d_logits);
    gemm(cpu, d_logits.matrix(), Op::plain, target.lm_head, Op::plain, d_x.matrix());
    scatter_rows(cpu, rows, d_x, b_.d_out);
  }

  /// Slots, and a block's leading correct ones: a slot without supervision neither ends nor lengthens them.
  void count(DFlashSums& sums) const {
    for (index_t block = 0; block < span_.sequences * span_.blocks; ++block) {
      bool any = false, right = true;
      for (index_t r = block * span_.block_size; r < (block + 1) * span_.block_size; ++r) {
        if (b_.targets.supervised(r) == 0) continue;
        any = true, right = right && b_.right(r) != 0;
        ++sums.supervised;
        sums.correct += b_.right(r);
        sums.accept_len_sum += right ? 1 : 0;
      }
      sums.accept_len_sum += any ? 1 : 0;
      sums.supervised_blocks += any ? 1 : 0;
    }
  }

  BlockSpan span_;
  BlockRule rule_;
  Arena arena_;
  Activations acts_{};
  Buffers b_{};
};

}  // namespace K3SPEC_NAMESPACE
