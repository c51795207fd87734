#pragma once
/// \file
/// The DSpark training objective: all blocks of a batch through the draft at once; per slot
/// ```text
/// ce_alpha · cross-entropy + l1_alpha · |p - q|₁ + confidence_alpha · BCE(confidence logit, acceptance)
/// ```
/// with q the draft's distribution, Markov correction and all, p the target's, acceptance = 1 - |p - q|₁ / 2 as a
/// constant; weighted by slot, divided by the weights' sum. p is the draft's own head on the target's last state, and
/// nothing flows back through it.
///
/// Supervised slots go through the vocabulary in chunks, forward and backward: no logits of a whole batch ever exist.
/// defines: DSparkBatch, DSparkOptions, DSparkObjective

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/batches/block_batch.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/comm/sum.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/objectives/dspark_chunk.hpp>
#include <k3spec/objectives/dspark_heads.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/gather_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// What DSpark's objective reads.
template <class T, index_t TargetWidth, index_t Hidden>
struct DSparkBatch : BlockBatch<T, TargetWidth> {
  Rows<const T, Hidden> target_last_hidden;  // [R] after the target's final norm
};

/// What DSpark's objective weighs, by the names that TrainSettings has it under.
struct DSparkOptions {
  double gamma = 4.0;  ///< see BlockRule
  double ce_alpha = 0.1, l1_alpha = 0.9, confidence_alpha = 1.0;
};

/// The loss of a DSpark draft on a batch of blocks, and its gradient.
/// \tparam ChunkRows  rows of logits that exist at a time; no bit depends on it
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::vocabulary)>
class DSparkObjective {
 public:
  using S = accumulate_t<T>;
  using Backbone = typename Draft::Backbone;
  using Batch = DSparkBatch<T, Draft::target_width, Draft::hidden>;
  using Weights = typename Draft::template Weights<const T>;
  using GradientWeights = typename Draft::template Weights<S>;
  using Sums = DSparkSums<Draft::block_size>;
  using Totals = BlockTotals;
  static constexpr index_t vocabulary = Draft::vocabulary;

  /// Memory for batches of one size.
  /// \param sequences, length, blocks  of every batch
  /// \throws Error when the config's mask token is none, and on a gamma that is not > 0
  DSparkObjective(index_t sequences, index_t length, index_t blocks, const DSparkOptions& options)
      : span_{sequences, length, blocks, Draft::block_size},
        options_(options),
        rule_{Slot::anchor_plus_k_plus_1, check_mask_token<typename Draft::config>(), options.gamma},
        arena_(bytes(span_)) {
    rule_.check();
    plan(arena_, span_, &acts_, &b_);
  }

  /// Bytes of all activations, gradients between layers and chunks.
  static constexpr std::size_t bytes(const BlockSpan& span) {
    const index_t rows = span.noise_rows();
    ArenaPlan a;
    Activations acts{};
    Buffers buffers{};
    plan(a, span, &acts, &buffers);
    a.borrow(Backbone::template scratch_bytes<T>(span.context_rows(), rows));
    a.borrow(DSparkHeads<Draft, T>::scratch_bytes(rows, span.block_size));
    a.borrow(plan_bytes([&](ArenaPlan& c) { Chunk::allocate(c, std::min(rows, ChunkRows)); }));
    return a.peak();
  }

  // ---- Each throws Error on a batch or a gradient of other shapes, and on an id out of range

  /// What a batch adds to its step's totals: to be summed over all batches, and ranks, before any forward_backward.
  Totals count(const Batch& batch) {
    check(batch);
    b_.targets.fill(rule_, span_, batch);
    return {b_.targets.total_weight()};
  }

  /// Losses and diagnostics only.
  Sums evaluate_only(const Cpu& cpu, const Weights& w, const Batch& batch) {
    return run(cpu, w, nullptr, batch, std::nullopt, Matrix<S>());
  }

  /// Losses, diagnostics, and gradients added to d_w, those of Σ weight · loss / (totals.weight + 1e-6).
  /// \param totals           counts summed over all batches of the step; none: this batch's
  /// \param d_target_hidden  [R, target_width] gets the gradient of batch.target_hidden unless it is empty
  Sums forward_backward(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                        const std::optional<Totals>& totals = std::nullopt,
                        const Matrix<S>& d_target_hidden = Matrix<S>()) {
    return run(cpu, w, &d_w, batch, totals, d_target_hidden);
  }
  /// The same where each rank has one batch of the step: their totals are summed here. The gradients in d_w are this
  /// rank's part: summed over all ranks they are the step's.
  template <Communicator C>
  Sums forward_backward(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, const Batch& batch, C& comm,
                        const Matrix<S>& d_target_hidden = Matrix<S>()) {
    Totals totals = count(batch);
    sum(comm, totals);
    return forward_backward(cpu, w, d_w, batch, totals, d_target_hidden);
  }

  /// After any call, [sequences · blocks · block_size, ·]: the states that the heads read, the Markov head's latents
  /// and the confidence logits.
  const Rows<T, Draft::hidden>& out() const { return acts_.out; }
  const Rows<T, Draft::Markov::rank>& latents() const requires(Draft::has_markov) { return b_.heads.markov.latent; }
  const Rows<S, 1>& confidence() const requires(Draft::has_confidence) { return b_.heads.logits; }
  const BlockTargets& targets() const { return b_.targets; }
  const BlockSpan& span() const { return span_; }
  /// The most bytes that were in use at a time; bytes(span()) once forward_backward has run.
  std::size_t peak_bytes() const { return arena_.peak(); }

 private:
  using Activations = typename Backbone::template Activations<T>;
  using Markov = typename Draft::Markov;
  using Chunk = DSparkChunk<Draft, T>;
  static constexpr bool trains_embeddings = Draft::config::train_embeddings;

  struct Buffers {
    BlockTargets targets;
    Rows<T, Draft::hidden> noise;
    Rows<S, Draft::hidden> d_out, d_noise;
    DSparkHeads<Draft, T> heads;
    Vector<index_t> rows;                                                 // supervised ones
    Vector<S> cross_entropy, distance, acceptance, confidence, d_losses;  // per row
  };

  template <Allocator A>
  static constexpr void plan(A& a, const BlockSpan& span, Activations* acts, Buffers* b) {
    const index_t rows = span.noise_rows();
    *acts = Activations::allocate(a, span.context_rows(), rows);
    b->targets = BlockTargets::allocate(a, rows);
    take_rows(a, rows, b->noise), take_rows(a, rows, b->d_out);
    if constexpr (trains_embeddings) take_rows(a, rows, b->d_noise);
    b->heads = DSparkHeads<Draft, T>::allocate(a, rows, span.block_size);
    take_rows(a, rows, b->rows), take_rows(a, rows, b->cross_entropy), take_rows(a, rows, b->distance);
    take_rows(a, rows, b->acceptance), take_rows(a, rows, b->confidence), take_rows(a, rows, b->d_losses);
  }

  void check(const Batch& batch) const {
    check_block_batch(span_, vocabulary, batch);
    const index_t found = batch.target_last_hidden.extent(0);
    if (found == span_.context_rows()) return;
    throw Error("batch: target_last_hidden", std::to_string(found), std::to_string(span_.context_rows()) + " rows");
  }

  Sums run(const Cpu& cpu, const Weights& w, const GradientWeights* d_w, const Batch& batch,
           const std::optional<Totals>& totals, const Matrix<S>& d_target_hidden) {
    if (d_target_hidden.extent(0) != 0) {
      require_shape("batch: d_target_hidden", d_target_hidden, span_.context_rows(), Draft::target_width);
    }
    const Totals all = count(batch).of_step(totals);
    const auto visible = block_visibility<typename Draft::config>(batch);
    embedding_forward<T>(cpu, b_.targets.noise_ids, w.embed_tokens, b_.noise);
    Backbone::template forward<T>(cpu, Draft::backbone(w), batch.target_hidden, b_.noise, span_, visible, acts_);
    b_.heads.forward(cpu, w, b_.targets.previous_ids, acts_.out);
    clear(cpu);
    const index_t n = supervised_rows(b_.targets.supervised, b_.rows);
    for (index_t r = 0; r < b_.d_losses.extent(0); ++r) {
      b_.d_losses(r) = static_cast<S>(block_loss_mean(b_.targets.weights(r), all.weight));
    }
    for (index_t first = 0; first < n; first += ChunkRows) {
      Scope scope(arena_);
      predict(cpu, w, d_w, batch, b_.rows.rows(first, std::min(ChunkRows, n - first)));
    }
    confide(cpu);
    if (d_w != nullptr) backward(cpu, w, *d_w, batch, visible, d_target_hidden);
    return gather();
  }

  /// Rows without supervision keep these zeros.
  void clear(const Cpu& cpu) {
    evaluate(cpu, expr::as_expression(0.0), b_.d_out);
    evaluate(cpu, expr::as_expression(0.0), b_.cross_entropy);
    evaluate(cpu, expr::as_expression(0.0), b_.distance);
    evaluate(cpu, expr::as_expression(0.0), b_.confidence);
  }

  /// Losses of some rows over the vocabulary and, when training, the gradients of their states and latents.
  void predict(const Cpu& cpu, const Weights& w, const GradientWeights* d_w, const Batch& batch,
               Vector<const index_t> rows) {
    // All of a chunk's memory even for a last one that is smaller: the plan does not depend on the batch.
    const Chunk c = Chunk::allocate(arena_, std::min(span_.noise_rows(), ChunkRows)).rows(rows.extent(0));
    teach(cpu, w, batch, rows, c);
    gather_rows(cpu, rows, acts_.out, c.x);
    Draft::Head::forward(cpu, w.lm_head, c.x, c.logits);
    if constexpr (Draft::has_markov) {
      gather_rows(cpu, rows, b_.heads.markov.latent, c.latent);
      Markov::add_logits(cpu, w.markov_head, c.latent, c.logits);
    }
    evaluate_rows(cpu, row_max_formula(), c.largest, c.logits);
    evaluate_rows(cpu, log_mass_formula(), c.cross_entropy, c.logits, c.largest);
    subtract_label(c.logits, Vector<const S>(c.largest), c.labels, c.cross_entropy);
    evaluate_rows(cpu, distance_formula(), c.distance, c.logits, c.p, c.largest);
    for (index_t i = 0; i < rows.extent(0); ++i) {
      b_.cross_entropy(rows(i)) = c.cross_entropy(i), b_.distance(rows(i)) = c.distance(i);
      c.d_losses(i) = b_.d_losses(rows(i));
    }
    if (d_w != nullptr) learn(cpu, w, *d_w, rows, c);
  }

  /// The target's probabilities for the same labels.
  void teach(const Cpu& cpu, const Weights& w, const Batch& batch, Vector<const index_t> rows, const Chunk& c) {
    for (index_t i = 0; i < rows.extent(0); ++i) {
      c.labels(i) = b_.targets.labels(rows(i)), c.teacher_rows(i) = b_.targets.teacher_rows(rows(i));
    }
    gather_rows(cpu, c.teacher_rows, batch.target_last_hidden, c.x);
    Draft::Head::forward(cpu, w.lm_head, c.x, c.p);
    evaluate(cpu, softmax_formula(), c.p, c.p);
  }

  void learn(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, Vector<const index_t> rows, const Chunk& c) {
    differentiate_rows(cpu, dspark_row_formula(options_.ce_alpha, options_.l1_alpha), c.d_losses,
                       gradients(overwrite(c.d_logits), no_gradient, no_gradient), arena_, c.logits, c.p, c.largest);
    subtract_label_backward(c.labels, options_.ce_alpha, Vector<const S>(c.d_losses), c.d_logits);
    if constexpr (trains_embeddings) Draft::Head::backward_weight(cpu, d_w.lm_head, c.x, c.d_logits);
    Draft::Head::backward_input(cpu, w.lm_head, c.d_logits, c.d_x);
    scatter_rows(cpu, rows, c.d_x, b_.d_out);
    if constexpr (Draft::has_markov) {
      Markov::template add_logits_backward<T>(cpu, w.markov_head, d_w.markov_head, c.latent, c.d_logits, c.d_latent);
      scatter_rows(cpu, rows, c.d_latent, b_.heads.d_latent);
    }
  }

  /// Acceptance, and the confidence head's loss.
  void confide(const Cpu& cpu) {
    evaluate(cpu, acceptance_formula(), b_.acceptance, b_.distance);
    if constexpr (Draft::has_confidence) {
      evaluate(cpu, confidence_formula(), column(b_.confidence), b_.heads.logits, column(b_.acceptance));
    }
  }

  void backward(const Cpu& cpu, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                const BlockVisibility& visible, const Matrix<S>& d_target_hidden) {
    if constexpr (Draft::has_confidence) {
      differentiate(cpu, options_.confidence_alpha * confidence_formula(), column(b_.d_losses),
                    gradients(overwrite(b_.heads.d_logits), no_gradient), arena_, b_.heads.logits,
                    column(b_.acceptance));
    }
    b_.heads.backward(cpu, w, d_w, b_.targets.previous_ids, acts_.out, b_.d_out, arena_);
    Backbone::template backward<T>(
        cpu, Draft::backbone(w), Draft::backbone(d_w), batch.target_hidden, b_.noise, span_, visible, acts_, b_.d_out,
        {b_.d_noise.matrix(), d_target_hidden, trains_embeddings ? Into::overwrite : Into::nothing,
         d_target_hidden.extent(0) == 0 ? Into::nothing : Into::overwrite},
        arena_);
    if constexpr (trains_embeddings) {
      embedding_backward<S>(cpu, b_.targets.noise_ids, Draft::config::pad_token_id, b_.d_noise, d_w.embed_tokens);
    }
  }

  static Rows<S, 1> column(const Vector<S>& v) { return Rows<S, 1>(v.data(), v.extent(0)); }

  /// Adds up blocks in ascending order, each up to its first slot without supervision.
  Sums gather() const {
    Sums sums{};
    std::array<DSparkSlot, static_cast<std::size_t>(Draft::block_size)> slots;
    for (index_t block = 0; block < span_.sequences * span_.blocks; ++block) {
      std::size_t n = 0;
      for (; n < slots.size(); ++n) {
        const index_t r = block * span_.block_size + static_cast<index_t>(n);
        if (b_.targets.supervised(r) == 0) break;
        slots[n] = slot(r);
      }
      sums.add_block(std::span(slots).first(n));
    }
    return sums;
  }

  DSparkSlot slot(index_t r) const {
    const auto ce = static_cast<double>(b_.cross_entropy(r)), l1 = static_cast<double>(b_.distance(r));
    const auto bce = static_cast<double>(b_.confidence(r));
    const double loss = options_.ce_alpha * ce + options_.l1_alpha * l1 + options_.confidence_alpha * bce;
    DSparkSlot s{b_.targets.weights(r), loss, ce, l1, bce, static_cast<double>(b_.acceptance(r)), std::nullopt};
    if constexpr (Draft::has_confidence) s.predicted = 1 / (1 + std::exp(-static_cast<double>(b_.heads.logits(r, 0))));
    return s;
  }

  BlockSpan span_;
  DSparkOptions options_;
  BlockRule rule_;
  Arena arena_;
  Activations acts_{};
  Buffers b_{};
};

}  // namespace K3SPEC_NAMESPACE
